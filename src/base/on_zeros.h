// For records that are made of fresh memory: those with large tables do not write them, so that pages which are never used
// are never touched.
#pragma once

namespace weft::rt {

// Says to a constructor that the memory is all zero already.
struct on_zeros {};

}  // namespace weft::rt
