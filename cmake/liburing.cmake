# WEFT_HAS_LIBURING: whether a program of this build can be linked with liburing. Tried, not looked for: a cross
# compiler sees the headers of the machine it runs on, but not the library. Without it files are read and
# written by threads.
include(CheckCXXSourceCompiles)

function(weft_find_liburing library result)
  set(CMAKE_REQUIRED_LIBRARIES ${library})
  set(CMAKE_REQUIRED_QUIET ON)
  check_cxx_source_compiles("
    #include <liburing.h>
    int main() {
      struct io_uring ring;
      unsigned workers[2] = {1, 1};
      return io_uring_queue_init(1, &ring, 0) + io_uring_register_iowq_max_workers(&ring, workers);
    }" ${result})
endfunction()

set(WEFT_HAS_LIBURING OFF)
if(WEFT_IO_URING)
  weft_find_liburing(uring WEFT_FOUND_LIBURING)
  if(WEFT_FOUND_LIBURING)
    set(WEFT_HAS_LIBURING ON)
    weft_find_liburing(-l:liburing.a WEFT_FOUND_LIBURING_ARCHIVE)
  else()
    # Looked for again the next time: it may be installed by then.
    unset(WEFT_FOUND_LIBURING CACHE)
    message(STATUS "weft: liburing not found (Debian: liburing-dev): threads will wait for files")
  endif()
endif()
