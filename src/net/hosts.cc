// See hosts.h.
//
// A line has as many names as it likes: lists that send advertisers nowhere put thousands into one. So there is no buffer of
// a fixed size, of which the rest of a long line would look like a line of its own, with a name for its address.
//
// Go: net/hosts.go
#include "net/hosts.h"

#include <cctype>
#include <cstdlib>

#include "net/address.h"

namespace weft::net {

namespace {

bool same_name(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) {
    return false;
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(a[i])) !=
        std::tolower(static_cast<unsigned char>(b[i]))) {
      return false;
    }
  }
  return true;
}

std::string_view next_word(std::string_view* line) {
  const auto begin = line->find_first_not_of(" \t\r\n");
  if (begin == line->npos) {
    *line = {};
    return {};
  }
  const auto end = line->find_first_of(" \t\r\n", begin);
  const std::string_view word = line->substr(begin, end == line->npos ? end : end - begin);
  *line = end == line->npos ? std::string_view() : line->substr(end);
  return word;
}

// getline() makes room.
struct line_buffer {
  line_buffer() = default;
  ~line_buffer() { std::free(text); }
  line_buffer(const line_buffer&) = delete;
  line_buffer& operator=(const line_buffer&) = delete;
  char* text = nullptr;
  std::size_t room = 0;
};

}  // namespace

std::vector<endpoint> hosts_in(FILE* file, std::string_view host, std::uint16_t port) {
  std::vector<endpoint> found;
  line_buffer buffer;
  for (ssize_t n = 0; (n = getline(&buffer.text, &buffer.room, file)) >= 0;) {
    std::string_view line(buffer.text, static_cast<std::size_t>(n));
    line = line.substr(0, line.find('#'));
    const std::string_view address = next_word(&line);
    for (std::string_view name = next_word(&line); !name.empty(); name = next_word(&line)) {
      endpoint e;
      if (same_name(name, host) && numeric(address, port, &e)) {
        found.push_back(e);
        break;
      }
    }
  }
  return found;
}

}  // namespace weft::net
