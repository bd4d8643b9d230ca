// What libstdc++ keeps in front of every exception object, and where the one in flight is.
//
// Problem. fiber/unwind.cc must hand a goexit to an exception that is on its way to a handler
// (step 4 there). The C++ runtime has no call that names it: an exception is found through the
// thread's state only while it is being *handled*. But the frame whose clean-up is running needs
// its address to go on, so the address is in that frame or in a callee-saved register.
//
// find_exception_in_flight() spills those registers and looks through the frames of the clean-up,
// innermost first, for a word that points at a live exception that nobody handles. The tests are
// strict: readable, right alignment, language tag, a positive count of references, no handler, and
// a target frame that lies on this stack. A destroyed exception fails at the counts.
//
// Relied upon (Itanium C++ ABI, level II; libstdc++ since 4.7; checked by unit tests)
//   X1 The _Unwind_Exception ends exactly where the thrown object begins.
//   X2 What __cxa_init_primary_exception returns begins with the reference count, an int.
//   X3 unexpected_handler is consulted for dynamic exception specifications only, which C++17
//      removed.
//   X4 libgcc keeps in private_1 the stop function of forced unwinding and in private_2 its
//      argument; for an ordinary exception null and the stack address of the handling frame.
//      _Unwind_Resume looks at private_1 to see which of the two it resumes.
//   X5 switch_value and language_data say which `catch` clause the search phase chose.
#pragma once

#include <cstddef>
#include <typeinfo>
#include <unwind.h>

namespace weft::rt {

// __cxa_exception, or with the first field differing __cxa_dependent_exception (an exception that
// was rethrown from an exception_ptr).
struct exception_header {
  const std::type_info* type;  // the primary exception's object, if dependent
  void (*destroy)(void*);
  void (*unexpected_handler)();
  void (*terminate_handler)();
  exception_header* next;
  int handlers;  // that are handling it; negative if it is being rethrown out of them
  int switch_value;
  const unsigned char* action_record;
  const unsigned char* language_data;
  void* catch_address;
  void* adjusted_object;
  _Unwind_Exception unwind;
};
static_assert(sizeof(exception_header) == 112 && offsetof(exception_header, unwind) == 80);

inline exception_header& header_of(_Unwind_Exception* raised) {
  return *reinterpret_cast<exception_header*>(reinterpret_cast<char*>(raised) -
                                              offsetof(exception_header, unwind));
}

// The handler that the search phase chose is a `catch (...)`.
bool caught_by_catch_all(const exception_header& header) noexcept;

// The innermost exception in flight of the frames that called this one; null if there is none.
// Requires: called, through few frames, from the clean-up of a frame that it unwinds.
_Unwind_Exception* find_exception_in_flight() noexcept;

}  // namespace weft::rt
