! A stencil over OpenMP threads with automatic arrays, as numeric programs have them.
program stencil_omp
  implicit none
  integer, parameter :: n = 300
  real(8) :: field(n, n), start, now
  integer :: turn
  call random_number(field)
  call cpu_time(start)
  do turn = 1, 100000
    call relax(field, n)
    call cpu_time(now)
    if (now - start > 0.8d0) exit
  end do
  print '(a,l1)', 'finite=', sum(field) > 0d0
contains
  subroutine relax(grid, m)
    integer, intent(in) :: m
    real(8), intent(inout) :: grid(m, m)
    real(8) :: next(m, m), line(m)
    integer :: i, j
    next = grid
    !$omp parallel do private(line) num_threads(3)
    do j = 2, m - 1
      line = 0.5d0 * (grid(:, j - 1) + grid(:, j + 1))
      do i = 2, m - 1
        next(i, j) = 0.25d0 * (grid(i - 1, j) + grid(i + 1, j)) + 0.5d0 * line(i) * sqrt(abs(cos(grid(i, j))))
      end do
    end do
    !$omp end parallel do
    grid = next
  end subroutine relax
end program stencil_omp
