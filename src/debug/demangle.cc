// What is made of a parsed name; see debug/demangle.h, and debug/mangled_name.h for the grammar.
#include "debug/demangle.h"

#include <cstring>
#include <string_view>

#include "debug/mangled_name.h"

namespace weft::rt {

namespace {

// Where weft's templates call the user: run()'s call::invoke, closure::run, lambdas of its own.
bool calls_the_user(std::string_view text) {
  return text.starts_with("weft::") &&
         (text.ends_with("::invoke") || text.ends_with("::run") || text.ends_with("}::operator()"));
}

bool is_class_type(char c) { return c == 'N' || c == 'Z' || c == 'S' || is_digit(c); }

}  // namespace

function_name::function_name(const char* mangled) noexcept {
  name_parser parser(mangled);
  if (!parser.function()) return;
  size_ = parser.text().size();
  std::memcpy(text_, parser.text().data(), size_);
}

user_callable::user_callable(const char* mangled) noexcept {
  constexpr std::string_view kCall = "::operator()";
  name_parser outer(mangled);
  if (!outer.function() || !calls_the_user(outer.text())) return;
  const char* argument = outer.first_argument();
  // A lambda of weft's own, as in wait_group::go, is a template over the user's.
  for (int level = 0; level < 4 && argument != nullptr && is_class_type(*argument); ++level) {
    name_parser type(argument, outer.outermost());
    if (!type.one_type()) return;
    if (type.text().starts_with("weft::")) {
      argument = type.first_argument();
      continue;
    }
    size_ = type.text().size();
    if (size_ + kCall.size() > sizeof text_) size_ = sizeof text_ - kCall.size();
    std::memcpy(text_, type.text().data(), size_);
    std::memcpy(text_ + size_, kCall.data(), kCall.size());
    size_ += kCall.size();
    return;
  }
}

void print_function_name(printer& out, const char* mangled) noexcept {
  name_parser parser(mangled);
  if (parser.function()) {
    out.str(parser.text()).str("(...)");
    return;
  }
  const std::string_view plain(mangled);
  const bool c_name = !plain.starts_with("_Z");
  const std::size_t arguments = plain.starts_with("operator") ? plain.npos : plain.find('<');
  if (arguments != plain.npos && arguments > 0) {  // as debug information has it
    out.str(plain.substr(0, arguments)).str("<...>(...)");
    return;
  }
  out.str(c_name ? plain.substr(0, plain.find_first_of(".@")) : plain).str("(...)");
}

void print_data_name(printer& out, const char* mangled) noexcept {
  const function_name name(mangled);
  out.str(name.text().empty() ? std::string_view(mangled) : name.text());
}

void print_type_name(printer& out, const char* mangled) noexcept {
  name_parser parser(mangled);
  out.str(parser.whole_type() ? parser.text() : std::string_view(mangled));
}

}  // namespace weft::rt
