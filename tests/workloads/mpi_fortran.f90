! Calls of MPI from Fortran: the module mpi, or mpi_f08 where F08 is defined. Each rank writes what it calls into the file
! named by its rank in the folder MPI_CALLS, as mpi_calls.c does.
program mpi_fortran
#ifdef F08
  use mpi_f08
  implicit none
  type(MPI_Request) :: requests(2)
  type(MPI_Comm) :: half
  type(MPI_Datatype) :: types(64)
#else
  use mpi
  implicit none
  integer :: requests(2), half, types(64)
#endif
  integer :: rank, ranks, ierr, i, left, right, counts(64), places(64), ones(64)
  double precision :: out(400), in(400), start
  character(len=4096) :: folder
  character(len=16) :: number

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call get_environment_variable('MPI_CALLS', folder)
  write(number, '(I0)') rank
  open(unit=10, file=trim(folder)//'/'//trim(number), status='replace')
  call say('MPI_Comm_size')
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  right = mod(rank + 1, ranks)
  left = mod(rank + ranks - 1, ranks)
  out = 1
  do i = 1, 2
    call said('MPI_Irecv', left, 5, 400)
    call MPI_Irecv(in, 400, MPI_DOUBLE_PRECISION, left, 5, MPI_COMM_WORLD, requests(1), ierr)
    call said('MPI_Isend', right, 5, 100)
    call MPI_Isend(out, 100, MPI_DOUBLE_PRECISION, right, 5, MPI_COMM_WORLD, requests(2), ierr)
    call say('MPI_Waitall')
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierr)
  end do
  call say('MPI_Allreduce count=10 bytes=80 sequence=0')
  call MPI_Allreduce(out, in, 10, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  counts = 1
  ones = 1
  places = [(8 * i, i = 0, 63)]
  types = MPI_DOUBLE_PRECISION
  write(number, '(I0)') 8 * ranks
  write(10, '(A,I0,A,I0,A)') 'MPI_Alltoallw count=', ranks, ' bytes=', 8 * ranks, ' sequence=1'
  call MPI_Alltoallw(out, counts, places, types, in, ones, places, types, MPI_COMM_WORLD, ierr)
  call say('MPI_Comm_split')
  call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), rank, half, ierr)
  call say('MPI_Barrier sequence=0')
  call MPI_Barrier(half, ierr)
  call say('MPI_Wtime')
  start = MPI_Wtime()
  if (start < 0) stop 1
  call say('MPI_Comm_free')
  call MPI_Comm_free(half, ierr)
  call say('errors 1 1')
  close(10)
  call MPI_Finalize(ierr)
contains
  subroutine say(line)
    character(len=*), intent(in) :: line
    write(10, '(A)') line
  end subroutine
  subroutine said(name, peer, tag, count)
    character(len=*), intent(in) :: name
    integer, intent(in) :: peer, tag, count
    write(10, '(A,A,I0,A,I0,A,I0,A,I0)') name, ' peer=', peer, ' tag=', tag, ' count=', count, ' bytes=', 8 * count
  end subroutine
end program
