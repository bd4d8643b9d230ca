// The conservative search for the exception in flight; see fiber/exception_layout.h.
#include "fiber/exception_layout.h"

#include <cstdint>

#include "base/readable.h"

namespace weft::rt {

namespace {

// From find_exception_in_flight() to the frame whose clean-up runs, generously: the clean-up
// function, _Unwind_DeleteException, __cxa_end_catch, and what compilers put between.
constexpr int kFramesToSearch = 10;
// A goroutine's stack is never larger; bounds what X4's stack address may be.
constexpr std::uintptr_t kLargestStack = std::uintptr_t{1} << 32;

constexpr std::uint64_t kGnuPrimary = 0x474e5543432b2b00;    // "GNUCC++\0"
constexpr std::uint64_t kGnuDependent = 0x474e5543432b2b01;  // "GNUCC++\1"

// The stack between two frames: everything that the frames below `end` hold.
struct search_range {
  std::uintptr_t end;
  int frames;
};

_Unwind_Reason_Code note_frame(_Unwind_Context* context, void* arg) {
  auto* range = static_cast<search_range*>(arg);
  range->end = _Unwind_GetCFA(context);
  return ++range->frames > kFramesToSearch ? _URC_NORMAL_STOP : _URC_NO_REASON;
}

// Not instrumented: a candidate may be memory that was given back.
[[gnu::no_sanitize_address, gnu::no_sanitize_thread]] bool in_flight(std::uintptr_t candidate,
                                                                     std::uintptr_t search_begin) {
  constexpr std::uintptr_t kHeader = offsetof(exception_header, unwind);
  constexpr std::uintptr_t kCount = 16;  // X2's, with its padding
  if (candidate % alignof(_Unwind_Exception) != 0 || candidate < kHeader + kCount) return false;
  if (!readable(candidate - kHeader, sizeof(exception_header))) return false;
  auto* raised = reinterpret_cast<_Unwind_Exception*>(candidate);
  if (header_of(raised).handlers > 0) return false;
  if (raised->exception_class == kGnuPrimary) {
    const std::uintptr_t references = candidate - kHeader - kCount;
    if (!readable(references, sizeof(int))) return false;
    if (*reinterpret_cast<const int*>(references) <= 0) return false;
  } else if (raised->exception_class != kGnuDependent) {
    return false;
  }
  if (raised->private_1 != 0) return true;  // forced: there is no handling frame
  const std::uintptr_t handling_frame = raised->private_2;
  return handling_frame > search_begin && handling_frame - search_begin < kLargestStack;
}

// Values of DWARF's pointer encodings that the tables of g++ and clang++ use for types.
constexpr unsigned char kOmitted = 0xff;
constexpr unsigned char kFormatMask = 0x07;                // of the low nibble, without the sign
constexpr unsigned char kFormat2 = 0x02, kFormat4 = 0x03;  // others take a word

const unsigned char* skip_leb128(const unsigned char* at) {
  while ((*at & 0x80) != 0) ++at;
  return at + 1;
}

std::uint64_t read_uleb128(const unsigned char* at) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    value |= static_cast<std::uint64_t>(*at & 0x7f) << shift;
    if ((*at++ & 0x80) == 0) return value;
  }
}

// Not instrumented: it reads other functions' frames.
[[gnu::noinline, gnu::no_sanitize_address, gnu::no_sanitize_thread]] _Unwind_Exception*
search_callers() {
  const auto begin = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  search_range range{begin, 0};
  _Unwind_Backtrace(note_frame, &range);
  for (std::uintptr_t at = begin; at < range.end; at += sizeof(std::uintptr_t)) {
    const std::uintptr_t candidate = *reinterpret_cast<const std::uintptr_t*>(at);
    if (in_flight(candidate, begin)) return reinterpret_cast<_Unwind_Exception*>(candidate);
  }
  return nullptr;
}

}  // namespace

// The table of a function: landing-pad base (left out by both compilers), encoding of types, offset
// of the end of the type table; the types lie before that end, counted backwards from 1.
bool caught_by_catch_all(const exception_header& header) noexcept {
  const unsigned char* table = header.language_data;
  if (table == nullptr || header.switch_value <= 0 || *table++ != kOmitted) return false;
  const unsigned char encoding = *table++;
  if (encoding == kOmitted) return false;
  const unsigned char* types_end = skip_leb128(table) + read_uleb128(table);
  const int format = encoding & kFormatMask;
  const int size = format == kFormat2 ? 2 : format == kFormat4 ? 4 : 8;
  const unsigned char* type = types_end - header.switch_value * size;
  for (int i = 0; i < size; ++i) {
    if (type[i] != 0) return false;  // anything but null is a type
  }
  return true;
}

[[gnu::noinline]] _Unwind_Exception* find_exception_in_flight() noexcept {
  __builtin_unwind_init();  // every callee-saved register is in this frame now, above the searcher
  _Unwind_Exception* found = search_callers();
  asm volatile("" : "+r"(found));  // not a tail call: the frame must exist meanwhile
  return found;
}

}  // namespace weft::rt
