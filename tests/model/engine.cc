// The loop over executions and what each of them owns. See engine.h.
#include "model/engine.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "base/fatal.h"
#include "model/mutants.h"

namespace weft::model {
namespace {

constexpr std::size_t kChunk = 1 << 20;
using run_state = modelled_thread::run_state;

}  // namespace

int deeper() {
  const char* extra = std::getenv("WEFT_MODEL_DEEPER");
  return extra == nullptr ? 0 : std::atoi(extra);
}

report engine::explore(const std::function<void(world&)>& build, const options& bounds) {
  const auto start = std::chrono::steady_clock::now();
  report result;
  bounds_ = bounds;
  bounds_.preemptions += deeper();
  path_.clear();
  usages_.clear();
  tracing_ = false;
  do {
    ++result.executions;
    result.ok = run_once(build);
    if (again_) {
      path_.clear();
      result.executions = 0;
    }
  } while (again_ || (result.ok && next_path()));
  if (!result.ok) {
    result.failure = failure_;
    tracing_ = remember_labels = true;
    run_once(build);  // the same choices again, in words this time
    tracing_ = remember_labels = false;
    result.trace = trace_ + "  => " + failure_ + "\n";
  }
  result.ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return result;
}

bool engine::run_once(const std::function<void(world&)>& build) {
  begin_execution();
  world w(*this);
  if (setjmp(main_context_) == 0) {
    build(w);  // may itself fail
    for (int t = 0; t < thread_count_; ++t) {
      auto& thread = threads_[static_cast<std::size_t>(t)];
      thread.cur.join(threads_[kMain].cur);
      thread.released = knowledge{};
    }
    const int first = pick_next();
    if (first >= 0) resume(first);
  }
  current_ = kMain;  // every thread has ended, is stuck, or one has failed
  if (!failed_ && !again_) {
    for (int t = 0; t < thread_count_; ++t) {
      auto& thread = threads_[static_cast<std::size_t>(t)];
      if (thread.state != run_state::done && !thread.service) {
        failed_ = true;
        failure_ = describe_deadlock();
        break;
      }
      if (thread.state != run_state::done) thread.started = false;  // a fresh fiber next time
      threads_[kMain].cur.join(thread.cur);
    }
  }
  if (!failed_ && !again_ && finally_ && setjmp(main_context_) == 0) finally_();
  end_execution();
  return !failed_;
}

void engine::begin_execution() {
  ++execution_;
  position_ = 0;
  current_ = kMain;
  last_ = -1;
  thread_count_ = preemptions_ = spurious_ = timeouts_ = steps_ = locations_ = 0;
  weak_failures = old_loads = 0;
  failed_ = again_ = false;
  trace_.clear();
  seq_cst = heavy = light = view{};
  buckets_.clear();
  names_.clear();
  finally_ = nullptr;
  interrupt = nullptr;
  chunk_ = used_ = 0;
  threads_[kMain].joined.fill({-1, -1});
  threads_[kMain].cur = threads_[kMain].unfenced = threads_[kMain].released = knowledge{};
}

void engine::end_execution() {
  while (!objects_.empty()) {
    const auto [destroy, object] = objects_.back();
    objects_.pop_back();
    destroy(object);
  }
  if (failed_ || again_) reset_fibers();
}

bool engine::next_path() {
  while (!path_.empty()) {
    if (++path_.back().taken < path_.back().total) return true;
    path_.pop_back();
  }
  return false;
}

int engine::choose(int total) {
  if (total <= 1) return 0;
  if (position_ < path_.size()) {
    if (path_[position_].total != total) {
      failed_ = true;
      failure_ = "the model is not deterministic: a replayed step offers other choices";
      std::fputs((failure_ + "\n").c_str(), stderr);
      std::abort();
    }
    return path_[position_++].taken;
  }
  path_.push_back({0, static_cast<std::uint8_t>(total)});
  ++position_;
  return 0;
}

// --- bookkeeping -----------------------------------------------------------------------------

int engine::new_location() {
  if (locations_ == kLocations) fail("the scenario has too many atomics (kLocations)");
  return locations_++;
}

void* engine::allocate(std::size_t bytes, std::size_t align) {
  for (;;) {
    if (chunk_ == chunks_.size()) chunks_.push_back(std::make_unique<char[]>(kChunk));
    char* base = chunks_[chunk_].get();
    const auto address = reinterpret_cast<std::uintptr_t>(base) + used_;
    const std::size_t pad = (align - address % align) % align;
    if (used_ + pad + bytes <= kChunk) {
      char* result = base + used_ + pad;
      used_ += pad + bytes;
      return result;
    }
    ++chunk_;
    used_ = 0;
  }
}

view& engine::bucket(int location) {
  for (auto& [where, what] : buckets_) {
    if (where == location) return what;
  }
  return buckets_.emplace_back(location, view{}).second;
}

void engine::trace(const std::string& line) {
  char prefix[64];
  std::snprintf(prefix, sizeof prefix, "  %4d  %-10s ", steps_, in_thread() ? me().name : "(main)");
  trace_ += prefix + line + "\n";
}

void engine::name(const void* object, std::string text) {
  if (tracing_) names_.emplace_back(object, std::move(text));
}

std::string engine::name_of(const void* object) const {
  if (object == nullptr) return "null";
  for (const auto& [known, text] : names_) {
    if (known == object) return text;
  }
  char hex[32];
  std::snprintf(hex, sizeof hex, "%p", object);
  return hex;
}

std::string engine::describe_deadlock() const {
  std::string text = "deadlock:";
  for (int t = 0; t < thread_count_; ++t) {
    const auto& thread = threads_[static_cast<std::size_t>(t)];
    if (thread.state == run_state::done) continue;
    text += std::string(" ") + thread.name + " waits in " + thread.waits_in + ";";
  }
  return text;
}

void world::thread(const char* name, std::function<void()> body) {
  engine& e = engine_;
  if (e.thread_count_ == kThreads) e.fail("the scenario has too many threads (kThreads)");
  auto& t = e.threads_[static_cast<std::size_t>(e.thread_count_++)];
  t.name = name;
  t.body = std::move(body);
  t.state = run_state::ready;
  t.service = false;
  t.cur = t.unfenced = t.released = knowledge{};
  t.reads.clear();
  t.rereads.fill({-1, 0});
  t.joined.fill({-1, -1});
}

void world::service(const char* name, std::function<void()> body, bool (*starts)(const void*),
                    const void* arg) {
  thread(name, std::move(body));
  auto& t = engine_.threads_[static_cast<std::size_t>(engine_.thread_count_ - 1)];
  t.service = true;
  if (starts == nullptr) return;
  t.state = run_state::blocked;
  t.is_ready = starts;
  t.waits_for = arg;
  t.timed = t.wakes_spuriously = false;
}

}  // namespace weft::model

// In a model a fatal error of the runtime is a failed execution.
namespace weft::rt {
void fatal(const char* message) noexcept {
  model::engine::get().fail(std::string("fatal error: ") + message);
}
void fatal(const char* message, fault) noexcept { fatal(message); }
void fatal_check(const char* text, const char* file, int line) noexcept {
  model::engine::get().fail(std::string("check failed: ") + text + " (" + file + ":" +
                            std::to_string(line) + ")");
}
}  // namespace weft::rt
