// Types, template arguments and expressions: mostly skipped; see debug/mangled_name.h.
#include "debug/mangled_name.h"

namespace weft::rt {

namespace {

constexpr code_name kBuiltins[] = {
    {"v", "void"},        {"w", "wchar_t"},
    {"b", "bool"},        {"c", "char"},
    {"a", "signed char"}, {"h", "unsigned char"},
    {"s", "short"},       {"t", "unsigned short"},
    {"i", "int"},         {"j", "unsigned int"},
    {"l", "long"},        {"m", "unsigned long"},
    {"x", "long long"},   {"y", "unsigned long long"},
    {"n", "__int128"},    {"o", "unsigned __int128"},
    {"f", "float"},       {"d", "double"},
    {"e", "long double"}, {"g", "__float128"},
    {"z", "..."},
};

}  // namespace

bool name_parser::type() {
  const nesting n(depth_);
  if (depth_ > kDepth) return false;
  const char* suffix = nullptr;
  switch (*at_) {
    case 'K': suffix = " const"; break;
    case 'P': suffix = "*"; break;
    case 'R': suffix = "&"; break;
    case 'O': suffix = "&&"; break;
    case 'V': suffix = " volatile"; break;
    case 'r':
    case 'C':
    case 'G': suffix = ""; break;
    default: break;
  }
  if (suffix != nullptr) {
    ++at_;
    if (!type()) return false;
    emit(suffix);
    return true;
  }
  for (const code_name& b : kBuiltins) {
    if (*at_ != b.code[0]) continue;
    ++at_;
    emit(b.text);
    return true;
  }
  if (take('u')) return source_name();
  if (*at_ == 'D') return d_type();
  return compound_type();
}

bool name_parser::compound_type() {
  switch (*at_) {
    case 'F': {  // a function
      ++at_;
      take('Y');
      emit("function");
      const silence s(*this);
      while (!take('E')) {
        if ((*at_ == 'R' || *at_ == 'O') && at_[1] == 'E')
          ++at_;
        else if (!type())
          return false;
      }
      return true;
    }
    case 'A': {  // an array
      ++at_;
      if (is_digit(*at_))
        number();
      else if (*at_ != '_' && !expression_token())
        return false;
      if (!take('_') || !type()) return false;
      emit("[]");
      return true;
    }
    case 'M': {  // a pointer to member
      ++at_;
      const silence s(*this);
      return type() && type();
    }
    case 'T':
      if (at_[1] == 's' || at_[1] == 'u' || at_[1] == 'e')
        at_ += 2;  // struct, union, enum
      else {
        ++at_;
        emit("?");
        return sequence_id() && (*at_ != 'I' || template_arguments());
      }
      return name();
    case 'U': {  // a vendor's qualifier
      ++at_;
      const silence s(*this);
      return source_name() && (*at_ != 'I' || template_arguments()) && type();
    }
    default: return name();
  }
}

// Types that begin with D.
bool name_parser::d_type() {
  if (!take('D')) return false;
  const char c = *at_++;
  switch (c) {
    case 'n': emit("std::nullptr_t"); return true;
    case 'd':
    case 'e':
    case 'f':
    case 'h':
    case 'i':
    case 's':
    case 'u':
    case 'a':
    case 'c':
      emit(c == 'i' ? "char32_t" : c == 's' ? "char16_t" : c == 'u' ? "char8_t" : "auto");
      return true;
    case 'p': return type();  // a pack
    case 't':
    case 'T': return skip_expression();
    case 'o': return type();  // noexcept function
    case 'F': number(); return take('_') || take('x') || take('b');
    case 'v': {
      if (is_digit(*at_)) number();
      return take('_') && type();
    }
    default: return false;
  }
}

bool name_parser::template_arguments() {
  if (!take('I')) return false;
  emit(text().ends_with('<') ? " <...>" : "<...>");
  if (silent_ == 0 && first_argument_ == nullptr) first_argument_ = at_;
  const silence s(*this);
  const std::string_view own = last_;
  while (!take('E')) {
    if (!template_argument()) return false;
  }
  last_ = own;
  return true;
}

bool name_parser::template_argument() {
  const nesting n(depth_);
  if (depth_ > kDepth) return false;
  if (*at_ == 'L') return literal();
  if (take('X')) return skip_expression();
  if (take('J') || take('I')) {  // a pack, in the present and in an old spelling
    while (!take('E')) {
      if (!template_argument()) return false;
    }
    return true;
  }
  return type();
}

// L type value E, or L _Z encoding E.
bool name_parser::literal() {
  if (!take('L')) return false;
  if (take("_Z")) {
    if (!name()) return false;
    while (!take('E')) {
      if (!type()) return false;
    }
    return true;
  }
  if (!type()) return false;
  while (*at_ != '\0' && *at_ != 'E') ++at_;
  return take('E');
}

// The rest of an expression, with its E. Operators and operands are told apart only as far as is
// needed to find the end.
bool name_parser::skip_expression() {
  const nesting n(depth_);
  if (depth_ > kDepth) return false;
  const silence s(*this);
  while (!take('E')) {
    if (!expression_token()) return false;
  }
  return true;
}

bool name_parser::expression_token() {
  if (*at_ == '\0') return false;
  if (*at_ == 'L') return literal();
  if (is_digit(*at_)) return source_name();
  if (*at_ == 'N' || *at_ == 'I' || *at_ == 'X' || *at_ == 'J' || *at_ == 'F') {
    ++at_;
    return skip_expression();
  }
  if (*at_ == 'T' || *at_ == 'S') {
    ++at_;
    if (is_lower(*at_)) return ++at_, true;
    return sequence_id();
  }
  if (take("fp") || take("fL")) {
    while (is_digit(*at_) || *at_ == 'p' || *at_ == 'K') ++at_;
    return take('_');
  }
  if (take("cl") || take("il") || take("tl") || take("sP")) return skip_expression();
  if (*at_ == 'D') return d_type();
  ++at_;  // an operator's letter, a built-in type, a qualifier
  return true;
}

}  // namespace weft::rt
