// Names: nested, local, unnamed, operators, constructors; see debug/mangled_name.h.
#include "debug/mangled_name.h"

namespace weft::rt {

namespace {

constexpr code_name kOperators[] = {
    {"nw", "new"}, {"na", "new[]"}, {"dl", "delete"}, {"da", "delete[]"}, {"aw", "co_await"},
    {"ps", "+"},   {"ng", "-"},     {"ad", "&"},      {"de", "*"},        {"co", "~"},
    {"pl", "+"},   {"mi", "-"},     {"ml", "*"},      {"dv", "/"},        {"rm", "%"},
    {"an", "&"},   {"or", "|"},     {"eo", "^"},      {"aS", "="},        {"pL", "+="},
    {"mI", "-="},  {"mL", "*="},    {"dV", "/="},     {"rM", "%="},       {"aN", "&="},
    {"oR", "|="},  {"eO", "^="},    {"ls", "<<"},     {"rs", ">>"},       {"lS", "<<="},
    {"rS", ">>="}, {"eq", "=="},    {"ne", "!="},     {"lt", "<"},        {"gt", ">"},
    {"le", "<="},  {"ge", ">="},    {"ss", "<=>"},    {"nt", "!"},        {"aa", "&&"},
    {"oo", "||"},  {"pp", "++"},    {"mm", "--"},     {"cm", ","},        {"pm", "->*"},
    {"pt", "->"},  {"cl", "()"},    {"ix", "[]"},
};

constexpr code_name kAbbreviations[] = {
    {"t", "std"},           {"a", "std::allocator"}, {"b", "std::basic_string"},
    {"s", "std::string"},   {"i", "std::istream"},   {"o", "std::ostream"},
    {"d", "std::iostream"},
};

}  // namespace

bool name_parser::name() {
  const nesting n(depth_);
  if (depth_ > kDepth) return false;
  if (take('N')) return nested_name();
  if (take('Z')) return local_name();
  if (*at_ == 'S') {
    const bool in_std = at_[1] == 't';
    if (!abbreviation()) return false;
    if (in_std && !component(false)) return false;
  } else if (!component(true)) {
    return false;
  }
  return *at_ != 'I' || template_arguments();
}

// After N: qualifiers, then components up to E.
bool name_parser::nested_name() {
  while (*at_ == 'r' || *at_ == 'V' || *at_ == 'K') ++at_;
  if (*at_ == 'R' || *at_ == 'O') ++at_;
  bool first = true;
  while (!take('E')) {
    if (*at_ == 'I') {
      if (first || !template_arguments()) return false;
    } else if (!component(first)) {
      return false;
    }
    first = false;
  }
  return !first;
}

// One part between "::".
bool name_parser::component(bool first) {
  if (!first) emit("::");
  if (*at_ == 'L') ++at_;  // internal linkage
  bool ok = false;
  if (is_digit(*at_)) {
    ok = source_name();
  } else if (*at_ == 'S') {
    ok = abbreviation();
  } else if (*at_ == 'U') {
    ok = unnamed();
  } else if (take('T')) {
    emit("?");
    ok = sequence_id();
  } else if (*at_ == 'C' || (*at_ == 'D' && is_digit(at_[1]))) {
    ok = structor();
  } else if (*at_ == 'D') {
    const silence s(*this);
    ok = d_type();
  } else if (is_lower(*at_)) {
    ok = operator_name();
  }
  while (ok && take('B')) {  // ABI tags
    const silence s(*this);
    ok = source_name();
  }
  if (ok && take('M')) {
  }  // what follows is inside the initialiser of a member
  return ok;
}

// After Z: the function that something is local to, E, and the thing.
bool name_parser::local_name() {
  if (!name()) return false;
  {
    const silence s(*this);
    while (!take('E')) {
      if (!type()) return false;
    }
  }
  if (take('s')) return true;  // a string literal
  if (take('d')) {             // default argument
    number();
    if (!take('_')) return false;
  }
  emit("::");
  if (!name()) return false;
  if (take('_')) {  // discriminator
    if (take('_')) {
      number();
      return take('_');
    }
    number();
  }
  return true;
}

bool name_parser::source_name() {
  const std::size_t length = number();
  if (length == 0 || ::strnlen(at_, length) < length) return false;
  last_ = {at_, length};
  if (outermost_.empty()) outermost_ = last_;
  at_ += length;
  emit(last_.starts_with("_GLOBAL__N") ? std::string_view("(anonymous)") : last_);
  return true;
}

bool name_parser::abbreviation() {
  if (!take('S')) return false;
  for (const code_name& a : kAbbreviations) {
    if (*at_ != a.code[0]) continue;
    ++at_;
    emit(a.text);
    last_ = std::string_view(a.text).substr(*a.code == 't' ? 0 : 5);
    return true;
  }
  // Other substitutions would need a table of all prefixes; in names of functions they are rare.
  emit(*at_ == '_' && !outermost_.empty() ? outermost_ : std::string_view("?"));
  return sequence_id();
}

bool name_parser::unnamed() {
  if (!take('U')) return false;
  const bool lambda = take('l');
  if (!lambda && !take('t')) return false;
  if (lambda) {
    const silence s(*this);
    while (!take('E')) {
      if (!type()) return false;
    }
  }
  const std::size_t n = is_digit(*at_) ? number() + 2 : 1;
  emit(lambda ? "{lambda#" : "{unnamed#");
  char digits[20];
  std::size_t first = sizeof digits;
  for (std::size_t rest = n; rest > 0; rest /= 10) {
    digits[--first] = static_cast<char>('0' + rest % 10);
  }
  emit({digits + first, sizeof digits - first});
  emit("}");
  return take('_');
}

bool name_parser::operator_name() {
  emit("operator");
  if (take("cv")) {
    emit(" ");
    return type();
  }
  if (take("li")) {
    emit("\"\" ");
    return source_name();
  }
  for (const code_name& o : kOperators) {
    if (!take(o.code)) continue;
    if (is_lower(o.text[0])) emit(" ");
    emit(o.text);
    return true;
  }
  return false;
}

bool name_parser::structor() {
  const std::string_view own = last_;
  if (take('D'))
    emit("~");
  else if (!take('C'))
    return false;
  const bool inherited = take('I');
  if (!is_digit(*at_)) return false;
  ++at_;
  emit(own);
  const silence s(*this);
  return !inherited || type();
}

}  // namespace weft::rt
