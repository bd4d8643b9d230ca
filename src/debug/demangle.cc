// A parser for mangled names that keeps the names and skips the types; see debug/demangle.h.
//
// One pass, recursive descent, into a fixed buffer. Failure anywhere means that the name is printed
// as it came. Depth is bounded: crash reports run on goroutines' stacks.
#include "debug/demangle.h"

#include <cstddef>
#include <cstring>
#include <string_view>

namespace weft::rt {

namespace {

struct code_name {
  char code[3];
  const char* text;
};

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
    {"t", "std"},          {"a", "std::allocator"}, {"b", "std::basic_string"},
    {"s", "std::string"},  {"i", "std::istream"},   {"o", "std::ostream"},
    {"d", "std::iostream"},
};

constexpr code_name kBuiltins[] = {
    {"v", "void"},          {"w", "wchar_t"},     {"b", "bool"},
    {"c", "char"},          {"a", "signed char"}, {"h", "unsigned char"},
    {"s", "short"},         {"t", "unsigned short"}, {"i", "int"},
    {"j", "unsigned int"},  {"l", "long"},        {"m", "unsigned long"},
    {"x", "long long"},     {"y", "unsigned long long"}, {"n", "__int128"},
    {"o", "unsigned __int128"}, {"f", "float"},   {"d", "double"},
    {"e", "long double"},   {"g", "__float128"},  {"z", "..."},
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }

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
  if (ok && take('M')) {}    // what follows is inside the initialiser of a member
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
  if (take('_')) {             // discriminator
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
  if (take('D')) emit("~");
  else if (!take('C')) return false;
  const bool inherited = take('I');
  if (!is_digit(*at_)) return false;
  ++at_;
  emit(own);
  const silence s(*this);
  return !inherited || type();
}

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
    case 'r': case 'C': case 'G': suffix = ""; break;
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
        if ((*at_ == 'R' || *at_ == 'O') && at_[1] == 'E') ++at_;
        else if (!type()) return false;
      }
      return true;
    }
    case 'A': {  // an array
      ++at_;
      if (is_digit(*at_)) number();
      else if (*at_ != '_' && !expression_token()) return false;
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
      if (at_[1] == 's' || at_[1] == 'u' || at_[1] == 'e') at_ += 2;  // struct, union, enum
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
    case 'd': case 'e': case 'f': case 'h': case 'i': case 's': case 'u': case 'a': case 'c':
      emit(c == 'i' ? "char32_t" : c == 's' ? "char16_t" : c == 'u' ? "char8_t" : "auto");
      return true;
    case 'p': return type();  // a pack
    case 't': case 'T': return skip_expression();
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

// Where weft's templates call the user: run()'s call::invoke, closure::run, lambdas of its own.
bool calls_the_user(std::string_view text) {
  return text.starts_with("weft::") && (text.ends_with("::invoke") || text.ends_with("::run") ||
                                        text.ends_with("}::operator()"));
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
  out.str(c_name ? plain.substr(0, plain.find_first_of(".@")) : plain).str("(...)");
}

void print_type_name(printer& out, const char* mangled) noexcept {
  name_parser parser(mangled);
  out.str(parser.whole_type() ? parser.text() : std::string_view(mangled));
}

}  // namespace weft::rt
