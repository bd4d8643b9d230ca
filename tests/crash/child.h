// Runs one of the crash programs in a process of its own and keeps what it printed.
#pragma once

#include <initializer_list>
#include <string>

namespace crash {

struct outcome {
  std::string err;       // standard error
  std::string out;       // standard output
  int exit_status = -1;  // -1 if it did not exit by itself
  int signal = 0;
  bool hung = false;  // had to be killed
};

// `environment`: NAME=value, added to ours.
outcome run_program(const std::string& name, std::initializer_list<const char*> environment = {});

}  // namespace crash
