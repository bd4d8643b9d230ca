// One call at a time for each key; whoever asks meanwhile gets the same answer.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include <weft/future.h>
#include <weft/mutex.h>

namespace weft {

/// Go's singleflight.Group: run(key, f) calls f unless a call for the same key is under way, and then
/// waits for that one instead. All get its result, or its exception.
///
///     weft::singleflight<std::string, page> fetches;
///     page p = fetches.run(url, [&] { return fetch(url); }).value;
template <class Key, class Value, class Hash = std::hash<Key>>
class singleflight {
 public:
  struct result {
    Value value;
    bool shared;  ///< others have got it, too
  };

  template <class F>
  result run(const Key& key, F&& f) {
    return *run_by(key, std::forward<F>(f), [](const auto&) { return true; });
  }
  /// The same, but waits for a call of somebody else only until ctx is cancelled; nothing then. A call of
  /// its own takes as long as it takes: give ctx to f.
  template <class F>
  std::optional<result> run(const context& ctx, const Key& key, F&& f) {
    return run_by(key, std::forward<F>(f),
                  [&ctx](const shared_future<Value>& value) { return value.wait(ctx); });
  }

  /// The next run() for this key calls its function, even if an earlier call has not returned yet.
  void forget(const Key& key) {
    const std::lock_guard<mutex> held(mutex_);
    flights_.erase(key);
  }

 private:
  // Those who join it keep its future only, so that its promise goes when the call ends.
  struct flight {
    promise<Value> outcome;
    shared_future<Value> value = outcome.get_future().share();
    bool shared = false;  // guarded by the group's mutex

    template <class F>
    result begin(F&& f, mutex& m) {
      std::exception_ptr thrown;
      try {
        outcome.set_value(std::forward<F>(f)());
      } catch (...) {
        thrown = std::current_exception();
      }
      if (thrown != nullptr) {
        outcome.set_exception(thrown);
      }
      const Value& v = value.get();
      const std::lock_guard<mutex> held(m);
      return {v, shared};
    }
  };

  // wait(future) is true when it is worth asking for its value.
  template <class F, class Wait>
  std::optional<result> run_by(const Key& key, F&& f, Wait&& wait) {
    std::unique_lock<mutex> held(mutex_);
    std::shared_ptr<flight>& place = flights_[key];
    if (place != nullptr) {
      place->shared = true;
      const shared_future<Value> value = place->value;
      held.unlock();
      if (!wait(value)) {
        return std::nullopt;
      }
      return result{value.get(), true};
    }
    const auto mine = std::make_shared<flight>();
    place = mine;
    held.unlock();
    const landing at_end{*this, key, mine};
    return mine->begin(std::forward<F>(f), mutex_);
  }

  // However the call ends: if by goexit(), those who wait find a broken promise.
  struct landing {
    singleflight& group;
    const Key& key;
    const std::shared_ptr<flight>& mine;
    ~landing() {
      const std::lock_guard<mutex> held(group.mutex_);
      const auto at = group.flights_.find(key);
      if (at != group.flights_.end() && at->second == mine) {
        group.flights_.erase(at);
      }
    }
  };

  mutex mutex_;
  std::unordered_map<Key, std::shared_ptr<flight>, Hash> flights_;
};

}  // namespace weft
