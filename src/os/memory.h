// Address space and pages, without malloc.
#pragma once

#include <cstddef>

namespace weft::rt {

/// Rounds up to the page size.
std::size_t round_to_pages(std::size_t bytes) noexcept;
#if defined(__x86_64__)
constexpr std::size_t page_size() noexcept { return 4096; }
#else
std::size_t page_size() noexcept;
#endif

/// Maps zeroed, private, readable and writable memory that is committed page by page when touched.
/// Returns null and sets errno when the kernel refuses.
[[nodiscard]] void* reserve(std::size_t bytes) noexcept;

/// Ends a mapping made by reserve(), or a page-aligned part of it.
void release(void* start, std::size_t bytes) noexcept;

/// Gives the pages back; the range stays mapped and reads as zero. False (and errno) if the kernel
/// refuses, as it does for locked memory.
bool decommit(void* start, std::size_t bytes) noexcept;

/// Grows a mapping made by reserve(), moving it if it must. Null and errno when the kernel refuses;
/// the old mapping is then as it was.
[[nodiscard]] void* regrow(void* start, std::size_t old_bytes, std::size_t new_bytes) noexcept;

}  // namespace weft::rt
