// Regular expressions over what a program printed.
#pragma once

#include <string>

namespace crash {

// ECMAScript's; ^ and $ are the ends of the whole text, and . does not match a newline.
bool matches(const std::string& text, const std::string& pattern);

}  // namespace crash
