! A numeric kernel as Fortran programs have them: stencil [rounds].
module grid
  implicit none
contains
  subroutine relax(field, next, n)
    integer, intent(in) :: n
    real(8), intent(in) :: field(n, n)
    real(8), intent(out) :: next(n, n)
    integer :: i, j
    next = field
    do j = 2, n - 1
      do i = 2, n - 1
        next(i, j) = 0.25d0 * (field(i - 1, j) + field(i + 1, j) + field(i, j - 1) + field(i, j + 1))
      end do
    end do
  end subroutine relax
end module grid

program stencil
  use grid
  implicit none
  integer, parameter :: n = 400
  real(8), allocatable :: field(:, :), next(:, :)
  real :: start, now
  allocate (field(n, n), next(n, n))
  call random_number(field)
  call cpu_time(start)
  do
    call relax(field, next, n)
    call relax(next, field, n)
    call cpu_time(now)
    if (now - start > 0.6) exit
  end do
  print '(a,l1)', 'finite=', sum(field) > 0d0
end program stencil
