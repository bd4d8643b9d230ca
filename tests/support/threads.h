// How many threads there are.
#pragma once

#include <dirent.h>
#include <fstream>
#include <string>

namespace weft::test {

// Threads of this process, those that the kernel made for itself left out.
inline int own_threads() {
  int n = 0;
  DIR* tasks = opendir("/proc/self/task");
  while (const dirent* e = readdir(tasks)) {
    std::string name;
    std::getline(std::ifstream(std::string("/proc/self/task/") + e->d_name + "/comm"), name);
    n += e->d_name[0] != '.' && !name.starts_with("iou-");
  }
  closedir(tasks);
  return n;
}

}  // namespace weft::test
