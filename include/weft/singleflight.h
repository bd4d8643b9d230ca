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
    bool shared;  ///< others have asked for it, too
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
    // -- guarded by the group's mutex
    bool shared = false;
    bool over = false;  // may be on the map for a while, but is joined no more
  };

  // wait(future) is true when it is worth asking for its value.
  template <class F, class Wait>
  std::optional<result> run_by(const Key& key, F&& f, Wait&& wait) {
    std::unique_lock<mutex> held(mutex_);
    std::shared_ptr<flight>& place = flights_[key];
    if (place != nullptr && !place->over) {
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
    return lead(key, *mine, std::forward<F>(f));
  }

  // Takes the flight off the map, however the call ends: if by goexit(), those who wait find a broken
  // promise. After it nobody joins, so that `shared` stays as it is.
  struct landing {
    singleflight& group;
    const Key& key;
    flight& mine;
    bool landed = false;

    void land() {
      if (std::exchange(landed, true)) {
        return;
      }
      const std::lock_guard<mutex> held(group.mutex_);
      mine.over = true;  // also if the key's hash or comparison throws
      const auto at = group.flights_.find(key);
      if (at != group.flights_.end() && at->second.get() == &mine) {
        group.flights_.erase(at);
      }
    }
    ~landing() { land(); }
  };

  // Lands before it publishes: who has the answer and asks again gets another one. What belongs to the
  // user (f, and the value's moves, copies and destructor) runs without the mutex.
  template <class F>
  result lead(const Key& key, flight& mine, F&& f) {
    landing at_end{*this, key, mine};
    std::exception_ptr thrown;
    try {
      Value v = std::forward<F>(f)();
      at_end.land();
      mine.outcome.set_value(std::forward<Value>(v));
    } catch (...) {
      thrown = std::current_exception();
    }
    if (thrown != nullptr) {
      at_end.land();
      mine.outcome.set_exception(thrown);
    }
    return {mine.value.get(), mine.shared};
  }

  mutex mutex_;
  std::unordered_map<Key, std::shared_ptr<flight>, Hash> flights_;
};

}  // namespace weft
