// The grammar of mangled names (Itanium C++ ABI, 5.1), for debug/demangle.h.
//
// One pass, recursive descent, into a fixed buffer: names are kept (mangled_name.cc), types and
// expressions are only skipped unless they are what was asked for (mangled_type.cc). Depth is
// bounded: crash reports must not overflow the stack they run on.
#pragma once

#include <cstddef>
#include <cstring>
#include <string_view>

#include "debug/demangle.h"

namespace weft::rt {

// A table entry of the grammar: an operator, an abbreviation, a built-in type.
struct code_name {
  char code[3];
  const char* text;
};

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_lower(char c) { return c >= 'a' && c <= 'z'; }

// Parses one name or type. Where a function returns false, the text does not follow the grammar.
class name_parser {
 public:
  // `outermost`: what the substitution S_ stands for, if what is parsed is part of a longer name.
  explicit name_parser(const char* mangled, std::string_view outermost = {})
      : at_(mangled), outermost_(outermost) {}

  bool function() { return take("_Z") && name(); }
  bool whole_type() { return type() && *at_ == '\0'; }
  bool one_type() { return type(); }
  // The first template argument of the name just parsed; null if it has none.
  const char* first_argument() const { return first_argument_; }
  std::string_view outermost() const { return outermost_; }
  std::string_view text() const { return {out_, used_}; }

 private:
  static constexpr int kDepth = 48;

  struct nesting {
    explicit nesting(int& depth) : depth_(depth) { ++depth_; }
    ~nesting() { --depth_; }
    int& depth_;
  };
  // While one exists, what is parsed is not printed.
  struct silence {
    explicit silence(name_parser& p) : p_(p) { ++p_.silent_; }
    ~silence() { --p_.silent_; }
    name_parser& p_;
  };

  bool take(const char* text) {
    const std::size_t n = std::strlen(text);
    if (std::strncmp(at_, text, n) != 0) return false;
    at_ += n;
    return true;
  }
  bool take(char c) {
    if (*at_ != c) return false;
    ++at_;
    return true;
  }
  void emit(std::string_view text) {
    if (silent_ > 0) return;
    for (const char c : text) {
      if (used_ < sizeof out_) out_[used_++] = c;
    }
  }
  std::size_t number() {
    std::size_t n = 0;
    while (is_digit(*at_) && n < 100'000) n = n * 10 + static_cast<std::size_t>(*at_++ - '0');
    return n;
  }
  // The rest of "T_", "T12_", "S_", "S3_", up to the underscore.
  bool sequence_id() {
    while (is_digit(*at_) || (*at_ >= 'A' && *at_ <= 'Z')) ++at_;
    return take('_');
  }

  bool name();
  bool nested_name();
  bool component(bool first);
  bool local_name();
  bool source_name();
  bool abbreviation();
  bool unnamed();
  bool operator_name();
  bool structor();
  bool type();
  bool compound_type();
  bool d_type();
  bool template_arguments();
  bool template_argument();
  bool literal();
  bool skip_expression();
  bool expression_token();

  const char* at_;
  const char* first_argument_ = nullptr;
  std::string_view outermost_;  // the first name: namespaces come first
  std::string_view last_;       // the last plain name, for constructors
  int depth_ = 0;
  int silent_ = 0;
  std::size_t used_ = 0;
  char out_[kLongestName];
};

}  // namespace weft::rt
