! What a program says of itself, for the trace that rsys-sample writes.
!
!     use rsys
!     call rsys_range_push("step")        a region of the calling thread begins
!     call rsys_range_pop()               ... and ends; regions nest
!     call rsys_mark("checkpoint")        a point in time
!     call rsys_counter("residual", r)    a value over time
!     call rsys_pause(); call rsys_resume()
!
! Without rsys-sample nothing is recorded. Compile this file with the program; before glibc 2.34 it needs -ldl.
module rsys
  use, intrinsic :: iso_c_binding
  implicit none
  private
  public :: rsys_range_push, rsys_range_pop, rsys_mark, rsys_counter, rsys_pause, rsys_resume

  abstract interface
    subroutine with_name(name, values, count) bind(c)
      import :: c_char, c_ptr, c_size_t
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), value :: values
      integer(c_size_t), value :: count
    end subroutine
    subroutine with_value(name, value) bind(c)
      import :: c_char, c_double
      character(kind=c_char), intent(in) :: name(*)
      real(c_double), value :: value
    end subroutine
    subroutine plain() bind(c)
    end subroutine
  end interface

  interface
    function dlsym(handle, name) bind(c, name="dlsym")
      import :: c_char, c_funptr, c_ptr
      type(c_ptr), value :: handle
      character(kind=c_char), intent(in) :: name(*)
      type(c_funptr) :: dlsym
    end function
  end interface

  logical :: known = .false.
  procedure(with_name), pointer :: push => null(), mark => null()
  procedure(with_value), pointer :: count_up => null()
  procedure(plain), pointer :: pop => null(), pause => null(), resume => null()

contains

  function found(name)
    character(len=*), intent(in) :: name
    type(c_funptr) :: found
    found = dlsym(c_null_ptr, "rsys_agent_" // name // c_null_char)
  end function

  ! Threads that come here together find the same.
  subroutine look_up()
    type(c_funptr) :: function
    if (known) return
    function = found("push")
    if (c_associated(function)) call c_f_procpointer(function, push)
    function = found("mark")
    if (c_associated(function)) call c_f_procpointer(function, mark)
    function = found("counter")
    if (c_associated(function)) call c_f_procpointer(function, count_up)
    function = found("pop")
    if (c_associated(function)) call c_f_procpointer(function, pop)
    function = found("pause")
    if (c_associated(function)) call c_f_procpointer(function, pause)
    function = found("resume")
    if (c_associated(function)) call c_f_procpointer(function, resume)
    known = .true.
  end subroutine

  subroutine rsys_range_push(name)
    character(len=*), intent(in) :: name
    call look_up()
    if (associated(push)) call push(trim(name) // c_null_char, c_null_ptr, 0_c_size_t)
  end subroutine

  subroutine rsys_range_pop()
    call look_up()
    if (associated(pop)) call pop()
  end subroutine

  subroutine rsys_mark(name)
    character(len=*), intent(in) :: name
    call look_up()
    if (associated(mark)) call mark(trim(name) // c_null_char, c_null_ptr, 0_c_size_t)
  end subroutine

  subroutine rsys_counter(name, value)
    character(len=*), intent(in) :: name
    real(c_double), intent(in) :: value
    call look_up()
    if (associated(count_up)) call count_up(trim(name) // c_null_char, value)
  end subroutine

  subroutine rsys_pause()
    call look_up()
    if (associated(pause)) call pause()
  end subroutine

  subroutine rsys_resume()
    call look_up()
    if (associated(resume)) call resume()
  end subroutine
end module
