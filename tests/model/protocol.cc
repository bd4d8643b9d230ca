// See protocol.h.
#include "model/protocol.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <tuple>

#include "gmp/inside.h"

namespace weft::model {
namespace {

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

bool want_traces() {
  const char* wanted = std::getenv("WEFT_MODEL_TRACE");
  return wanted != nullptr && *wanted == '1';
}

void row(const std::string& model, const std::string& mutant, std::uint64_t clean,
         const char* verdict, std::uint64_t executions, double ms, const std::string& why) {
  std::printf("%-10s | %-58s | %9llu | %-7s | %9llu | %9.1f | %s\n", model.c_str(), mutant.c_str(),
              static_cast<unsigned long long>(clean), verdict,
              static_cast<unsigned long long>(executions), ms, why.c_str());
}

struct mutation {
  std::string title;
  active_mutant what;
};

std::vector<mutation> mutations_of(const protocol& p) {
  std::vector<mutation> all;
  for (const site* s : all_sites()) {
    if (!p.covers(*s)) continue;
    for (const std::memory_order weaker : weaker_orders(s->order)) {
      all.push_back({std::string(s->label) + " " + order_name(s->order) + "->" +
                         order_name(weaker) + " " + where(*s),
                     {s, weaker, ""}});
    }
  }
  for (const logic_mutant& m : logic_mutants()) {
    if (p.covers(m)) all.push_back({m.name, {nullptr, std::memory_order_relaxed, m.name}});
  }
  return all;
}

// Runs the scenarios with the mutant on until one fails: the smallest scenario first, and all of them with few
// preemptions before any with more. Most mistakes show with one or two, and a large scenario is soon through those.
void try_mutant(const protocol& p, const std::vector<const scenario*>& scenarios, const mutation& m,
                std::uint64_t clean) {
  std::uint64_t executions = 0;
  double ms = 0;
  active() = m.what;
  bool goes_on = true;
  for (int preemptions = 0; goes_on; ++preemptions) {
    goes_on = false;
    for (const scenario* s : scenarios) {
      if (preemptions > s->bounds.preemptions) continue;
      goes_on = true;
      options bounds = s->bounds;
      bounds.preemptions = preemptions;
      const report r = engine::get().explore(s->build, bounds);
      executions += r.executions;
      ms += r.ms;
      if (r.ok) continue;
      active() = {};
      row(p.name, m.title, clean, "caught", executions, ms, s->name + ": " + r.failure);
      if (want_traces()) std::fputs(r.trace.c_str(), stdout);
      return;
    }
  }
  active() = {};
  row(p.name, m.title, clean, "MISSED", executions, ms, "");
  ADD_FAILURE() << p.name << ": no scenario notices the mutant " << m.title
                << "; the order is not needed, or a scenario is missing";
}

}  // namespace

bool protocol::covers(const site& s) const {
  const bool mine = std::any_of(files.begin(), files.end(),
                                [&](const std::string& f) { return ends_with(s.file, f); });
  return mine && (labels.empty() || std::count(labels.begin(), labels.end(), s.label) > 0);
}

bool protocol::covers(const logic_mutant& m) const {
  if (m.file.empty()) return true;  // switched on in a scenario's own code
  const bool mine = std::any_of(files.begin(), files.end(),
                                [&](const std::string& f) { return ends_with(m.file, f); });
  return mine && (labels.empty() || std::count(labels.begin(), labels.end(), m.name) > 0);
}

report expect_holds(const scenario& s) {
  const report r = engine::get().explore(s.build, s.bounds);
  EXPECT_TRUE(r.ok) << s.name << ": " << r.failure << " after " << r.executions
                    << " executions; the schedule:\n"
                    << r.trace;
  return r;
}

report expect_fails(const scenario& s) {
  const report r = engine::get().explore(s.build, s.bounds);
  EXPECT_FALSE(r.ok) << s.name << ": holds in " << r.executions << " executions";
  return r;
}

void expect_all_mutants_caught(const protocol& p) {
  rt::live_borders = false;  // as a model of preemption may have left it
  // A model's own switches are known once its clean run has met them.
  auto& names = logic_mutants();
  names.erase(std::remove_if(names.begin(), names.end(),
                             [](const logic_mutant& m) { return m.file.empty(); }),
              names.end());
  std::uint64_t clean = 0;
  std::multimap<std::uint64_t, const scenario*> by_size;
  std::printf("%-10s | %-58s | %9s | %-7s | %9s | %9s |\n", "model", "mutant", "clean", "verdict",
              "runs", "ms");
  for (const scenario& s : p.scenarios) {
    const report r = expect_holds(s);
    if (!r.ok) return;
    clean += r.executions;
    by_size.emplace(r.executions, &s);
    row(p.name, "(none) " + s.name, r.executions, "holds", r.executions, r.ms,
        "preemptions <= " + std::to_string(s.bounds.preemptions + deeper()));
  }
  std::vector<const scenario*> smallest_first;
  for (const auto& [size, s] : by_size) smallest_first.push_back(s);
  for (const mutation& m : mutations_of(p)) try_mutant(p, smallest_first, m, clean);
  std::fflush(stdout);
}

std::vector<const protocol*>& all_protocols() {
  static std::vector<const protocol*> all;
  return all;
}

void expect_all_sites_covered(const std::vector<const protocol*>& protocols) {
  std::set<std::string> files;
  std::map<std::tuple<std::string, std::string, std::string>, int> enrolled, written;  // by file,
      // label, order
  for (const site* s : all_sites()) {
    ++enrolled[{s->file, s->label, order_name(s->order)}];
    bool covered = s->order == std::memory_order_relaxed;
    bool of_a_protocol = false;
    for (const protocol* p : protocols) {
      covered = covered || p->covers(*s);
      for (const std::string& f : p->files) of_a_protocol |= ends_with(s->file, f);
    }
    if (of_a_protocol) files.insert(s->file);
    EXPECT_TRUE(covered) << s->label << " at " << where(*s) << " belongs to no protocol";
  }
  const std::regex use(R"(WEFT_(?:COMMIT_|HEADER_)?ORDER\((\w+), *(\w+)\))");
  for (const std::string& file : files) {
    std::ifstream in(file);
    ASSERT_TRUE(in) << file;
    std::string line;
    while (std::getline(in, line)) {
      if (line.starts_with("#define")) continue;  // how a header says it
      std::set<std::string> once;                 // two equal uses on one line are one site
      for (std::sregex_iterator i(line.begin(), line.end(), use), end; i != end; ++i) {
        if ((*i)[2] == "relaxed") continue;
        if (once.insert(i->str()).second) ++written[{file, (*i)[1], (*i)[2]}];
      }
    }
  }
  for (const auto& [what, n] : written) {
    EXPECT_EQ(n, enrolled[what]) << std::get<1>(what) << " " << std::get<2>(what) << " in "
                                 << std::get<0>(what) << ": not every site is compiled in a model";
  }
}

void expect_all_mutants_tried(const std::vector<const protocol*>& protocols) {
  std::size_t planted = 0;
  for (const logic_mutant& m : logic_mutants()) {
    if (m.file.empty()) continue;
    ++planted;
    EXPECT_TRUE(std::any_of(protocols.begin(), protocols.end(),
                            [&m](const protocol* p) { return p->covers(m); }))
        << m.name << " in " << m.file << " is tried by no protocol";
  }
  EXPECT_GT(planted, 100u) << "not found";
  for (const protocol* p : protocols) {
    for (const std::string& label : p->labels) {
      const auto& sites = all_sites();
      const auto& mutants = logic_mutants();
      const bool is_there =
          std::any_of(sites.begin(), sites.end(),
                      [&](const site* s) { return s->label == label && p->covers(*s); }) ||
          std::any_of(mutants.begin(), mutants.end(), [&](const logic_mutant& m) {
            return m.name == label && !m.file.empty() && p->covers(m);
          });
      EXPECT_TRUE(is_there) << p->name << ": there is no " << label << " in its files";
    }
  }
}

namespace {

const char* const kUnnamed = "";  // an order without a label

// "…/src/gmp/run_queue.h" of the site -> "…/src/".
std::string source_root() {
  for (const site* s : all_sites()) {
    const std::string file = s->file;
    if (const auto at = file.rfind("src/"); at != std::string::npos) return file.substr(0, at + 4);
  }
  return "";
}

// Label by file, as the text shows them; comments do not count. What headers say in the compiler's words has none.
std::set<std::pair<std::string, std::string>> orders_in_sources(const std::string& root) {
  std::set<std::pair<std::string, std::string>> found;
  const std::regex use(
      R"(WEFT_(?:COMMIT_|HEADER_)?ORDER\(\s*(\w+),\s*(?:acquire|release|acq_rel|seq_cst)\))"
      R"(|WEFT_HEADER_RELEASE\((\w+)\)|__ATOMIC_(?:ACQUIRE|RELEASE|ACQ_REL|SEQ_CST))"
      R"(|\bmemory_order_(?:acquire|release|acq_rel|seq_cst)\b)");
  const std::regex comment(R"(//[^\n]*)"), macro(R"(\n#define [^\n]*)");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    const std::string path = entry.path().string();
    if (!ends_with(path, ".h") && !ends_with(path, ".cc")) continue;
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    std::string code = std::regex_replace(text.str(), comment, "");
    code = std::regex_replace(code, macro, "");
    for (std::sregex_iterator i(code.begin(), code.end(), use), end; i != end; ++i) {
      const auto& label = (*i)[1].matched ? (*i)[1] : (*i)[2];
      found.emplace(path.substr(root.size()), label.matched ? label.str() : kUnnamed);
    }
  }
  return found;
}

}  // namespace

void expect_all_orders_accounted_for(const std::vector<const protocol*>& protocols,
                                     const std::vector<exemption>& exempt) {
  const std::string root = source_root();
  auto written = orders_in_sources(root);
  EXPECT_GT(written.size(), 40u) << "not found: " << root;
  const auto headers = orders_in_sources(root.substr(0, root.size() - 4) + "include/");
  EXPECT_GT(headers.size(), 3u) << "not found: the headers beside " << root;
  written.insert(headers.begin(), headers.end());
  std::set<std::pair<std::string, std::string>> modelled;
  for (const site* s : all_sites()) {
    const std::string file = s->file;
    const bool covered = std::any_of(protocols.begin(), protocols.end(),
                                     [&](const protocol* p) { return p->covers(*s); });
    // Not by the root: a compiler may call one file by its absolute and another one by its relative path.
    for (const std::string folder : {"src/", "include/"}) {
      const auto at = file.rfind(folder);
      if (covered && at != std::string::npos) {
        modelled.emplace(file.substr(at + folder.size()), s->label);
      }
    }
  }
  for (const auto& order : written) {
    const auto& [file, label] = order;
    const bool is_exempt = std::any_of(exempt.begin(), exempt.end(), [&order](const exemption& e) {
      return e.file == order.first && e.label == order.second;  // clang 14 captures no bindings
    });
    const bool is_modelled = modelled.count({file, label}) != 0;
    EXPECT_TRUE(is_modelled || is_exempt)
        << label << " in " << file << ": model it, or say why not";
    EXPECT_FALSE(is_modelled && is_exempt) << label << " in " << file << " is modelled by now";
  }
  for (const exemption& e : exempt) {
    EXPECT_TRUE(written.count({e.file, e.label}) != 0) << e.label << " in " << e.file << " is gone";
    EXPECT_GT(e.why.size(), 20u) << e.label << ": why?";
  }
}

}  // namespace weft::model
