// What leaves the library.
#pragma once

#define WEFT_EXPORT __attribute__((visibility("default")))
