! Regions of a Fortran program by the module rsys.
program regions
  use, intrinsic :: iso_c_binding
  use rsys
  implicit none
  call rsys_range_push("outer")
  call rsys_range_push("inner")
  call rsys_counter("residual", 0.5_c_double)
  call rsys_mark("a mark")
  call rsys_range_pop()
  call rsys_range_pop()
  call rsys_pause()
  call rsys_range_push("in a pause")
  call rsys_range_pop()
  call rsys_resume()
end program
