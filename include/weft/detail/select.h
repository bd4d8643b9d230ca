// What the templates of select.h hand to src/chan/select.cc: cases without their types.
#pragma once

#include <cstddef>
#include <cstdint>

#include <weft/detail/channel.h>
#include <weft/detail/export.h>

namespace weft::detail {

enum class case_kind : std::uint8_t { recv, send, otherwise, timeout };

struct select_case {
  channel* ch;           // recv, send; null: never ready
  void* value;           // recv: where it goes; send: the value
  std::int64_t timeout;  // timeout: nanoseconds
  case_kind kind;
};

// Room for what one case needs while the select waits.
inline constexpr std::size_t kSelectNodeSize = 48;
struct select_node {
  alignas(8) std::byte memory[kSelectNodeSize];
};

struct select_result {
  std::size_t index;
  bool received;  // recv: false if the channel is closed
};

// nodes and order: room for n each. If `sorted` the order is that of an earlier call with the same
// channels. Throws closed_channel if it chooses a send on a closed channel.
WEFT_EXPORT select_result select_run(const select_case* cases, std::size_t n, select_node* nodes,
                                     std::uint32_t* order, bool sorted);

// A case whose type only its maker knows, for a selector.
struct any_case {
  any_case() = default;
  any_case(const any_case&) = delete;
  any_case& operator=(const any_case&) = delete;
  virtual ~any_case() = default;
  virtual select_case prepare() = 0;
  virtual void run(bool received) = 0;
};

struct selector_cases;  // opaque; null: none

// Takes the case over, also if it throws. Returns its index.
WEFT_EXPORT std::size_t selector_add(selector_cases*& cases, any_case* c);
WEFT_EXPORT std::size_t selector_select(selector_cases* cases);
WEFT_EXPORT std::size_t selector_size(const selector_cases* cases) noexcept;
WEFT_EXPORT void selector_destroy(selector_cases* cases) noexcept;

}  // namespace weft::detail
