// Readable names of functions and types, without allocating.
//
// Problem. abi::__cxa_demangle allocates, and libstdc++ does not export its variant that does not.
// Full names are also not what a stack trace wants: those of templates fill pages. So this prints
// what Go prints: the qualified name, with "<...>" for template arguments and "(...)" for
// parameters. weft::chan<int>::send(int) const is `weft::chan<...>::send(...)`.
//
// What is not understood is printed as it is.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/print.h"

namespace weft::rt {

inline constexpr std::size_t kLongestName = 256;  // longer ones are cut

// A function's name, kept to be compared. Empty unless it could be parsed.
class function_name {
 public:
  explicit function_name(const char* mangled) noexcept;
  std::string_view text() const { return {text_, size_}; }

 private:
  std::size_t size_ = 0;
  char text_[kLongestName];
};

// Templates of weft's headers run the user's callables, and optimisers merge the two: then the only
// frame of the user's code is, say, weft::detail::closure<main::{lambda()#1}>::run. This is the
// name to show for such a frame, `main::{lambda#1}::operator()`; empty for all other functions.
class user_callable {
 public:
  explicit user_callable(const char* mangled) noexcept;
  std::string_view text() const { return {text_, size_}; }

 private:
  std::size_t size_ = 0;
  char text_[kLongestName];
};

// A function: "main(...)", "app::server::run(...)", "main::{lambda#1}::operator()(...)".
void print_function_name(printer& out, const char* mangled) noexcept;

// A variable: "app::accounts".
void print_data_name(printer& out, const char* mangled) noexcept;

// A type, given what std::type_info::name() returns: "std::out_of_range".
void print_type_name(printer& out, const char* mangled) noexcept;

}  // namespace weft::rt
