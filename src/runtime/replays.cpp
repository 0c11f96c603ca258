#include "runtime/replays.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/units.h"

namespace teraio::runtime {

// The calling thread replays until the end of the object. Its time is no op's.
class Replays::Turn {
 public:
  explicit Turn(Replays& replays) : replays_(replays) {
    replays_.turn_mutex_.lock();
    if (replays_.depth_++ > 0) return;
    start_ns_ = replays_.host_.clock.now_ns();
    const std::lock_guard lock(replays_.host_.mutex);
    stall_at_start_ns_ = replays_.host_.engine.counters().stall_ns();
  }
  ~Turn() {
    if (--replays_.depth_ == 0) {
      const std::lock_guard lock(replays_.host_.mutex);
      const int64_t duration_ns = replays_.host_.clock.now_ns() - start_ns_;
      const int64_t stall_ns = replays_.host_.engine.counters().stall_ns() - stall_at_start_ns_;
      replays_.host_.engine.discards().counters().duration_ns += duration_ns - stall_ns;
      replays_.host_.observer.leave_out_of_ops(duration_ns - stall_ns);
    }
    replays_.turn_mutex_.unlock();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  Replays& replays_;
  const engine::ReplayMark mark_;
  int64_t start_ns_ = 0;
  int64_t stall_at_start_ns_ = 0;
};

// A replay, and those that it needs first. A temporary stays until the last of them has read it, so
// that none is made twice, however many ways there are from one to another. Where memory is short,
// those that no running replay reads are freed, and made again later.
class Replays::Chain {
 public:
  Chain(Replays& replays, const engine::Recipe& last) : replays_(replays) {
    const std::lock_guard lock(replays_.host_.mutex);
    count_readers(last);
  }
  ~Chain() {
    Temporaries dropped;  // freed without the lock
    const std::lock_guard lock(replays_.host_.mutex);
    for (const auto& [_, maker] : made_) dropped.push_back(std::move(maker->temporaries));
    made_.clear();  // a recipe ends under the lock
  }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  // Under the lock: the chain makes the temporaries of the recipe.
  void add(const std::shared_ptr<engine::Recipe>& maker) { made_.emplace(maker.get(), maker); }

  // Under the lock: `reader` has run. Returns the temporaries that nobody waits for, to be freed
  // without the lock.
  Temporaries note_read(const engine::Recipe& reader) {
    Temporaries dropped;
    for (const engine::RecipeInput& input : reader.inputs) {
      const auto found = made_.find(input.maker.get());
      if (found == made_.end() || --readers_[found->first] > 0) continue;
      dropped.push_back(std::move(found->second->temporaries));
      made_.erase(found);
    }
    return dropped;
  }

  // Frees the temporaries that no replay reads now. Returns whether there were any.
  bool drop_idle() {
    Temporaries dropped;  // freed without the lock
    const std::lock_guard lock(replays_.host_.mutex);
    for (const auto& [_, maker] : made_)
      if (maker->temporaries != nullptr && is_idle(*maker->temporaries))
        dropped.push_back(std::move(maker->temporaries));
    return !dropped.empty();
  }

 private:
  static bool is_idle(const engine::ReplayResults& temporaries) {
    return std::ranges::all_of(temporaries.tensors(), [](const engine::LiveTensor* tensor) {
      return tensor == nullptr || tensor->uses.pin_count == 0;
    });
  }

  void count_readers(const engine::Recipe& reader) {
    if (!counted_.insert(&reader).second) return;
    for (const engine::RecipeInput& input : reader.inputs) {
      if (input.maker != nullptr) {
        ++readers_[input.maker.get()];
        count_readers(*input.maker);
      } else if (input.tensor != nullptr &&
                 input.tensor->residency == engine::Residency::kDiscarded) {
        count_readers(*input.tensor->replay.recipe);
      }
    }
  }

  Replays& replays_;
  std::unordered_set<const engine::Recipe*> counted_;
  std::unordered_map<const engine::Recipe*, int64_t> readers_;  // that have not run
  std::unordered_map<const engine::Recipe*, std::shared_ptr<engine::Recipe>> made_;
};

// What a replay reads: on the device and pinned until the end of the object.
class Replays::HeldInputs {
 public:
  // All outlive this object.
  HeldInputs(Replays& replays, const engine::Recipe& recipe, Chain& chain)
      : replays_(replays), recipe_(recipe), chain_(chain) {}
  ~HeldInputs() {
    Temporaries dropped;  // freed without the lock
    const std::lock_guard lock(replays_.host_.mutex);
    replays_.host_.unpin(pinned_);
    replays_.host_.engine.free_kept();
    dropped = chain_.note_read(recipe_);
    replayed_.clear();  // a recipe ends under the lock
  }
  HeldInputs(const HeldInputs&) = delete;
  HeldInputs& operator=(const HeldInputs&) = delete;

  // First all that has to be made again, one after the other, so that little is pinned meanwhile.
  Status hold() {
    for (const engine::RecipeInput& input : recipe_.inputs) TERAIO_RETURN_IF_ERROR(make(input));
    for (const engine::RecipeInput& input : recipe_.inputs) TERAIO_RETURN_IF_ERROR(pin(input));
    return {};
  }

  std::vector<std::byte*> addresses() const { return addresses_of(pinned_); }

 private:
  // Returns the tensor that has, or had, the bytes; null: they have to be made as a temporary.
  static engine::LiveTensor* tensor_of(const engine::RecipeInput& input) {
    if (input.tensor != nullptr || input.maker == nullptr) return input.tensor;
    const engine::ReplayResults* made = input.maker->temporaries.get();
    return made == nullptr ? nullptr : made->tensors()[input.result];
  }

  Status make(const engine::RecipeInput& input) {
    std::unique_lock lock(replays_.host_.mutex);
    if (const engine::LiveTensor* tensor = tensor_of(input)) {
      if (tensor->residency != engine::Residency::kDiscarded) return {};
      replayed_.push_back(tensor->replay.recipe);
      lock.unlock();
      return replays_.replay(replayed_.back(), /*keeps_results=*/false, chain_);
    }
    if (input.maker == nullptr)
      return Status(ErrorCode::kInternal, "the program has dropped what a replay reads");
    replayed_.push_back(input.maker);
    chain_.add(input.maker);
    lock.unlock();
    return replays_.replay(replayed_.back(), /*keeps_results=*/true, chain_);
  }

  Status pin(const engine::RecipeInput& input) {
    std::unique_lock lock(replays_.host_.mutex);
    engine::LiveTensor* tensor = tensor_of(input);
    while (tensor == nullptr) {  // the program has dropped it meanwhile
      if (input.maker != nullptr && input.maker->temporaries != nullptr)
        return Status(ErrorCode::kInternal, "an op gave another result when it ran again");
      lock.unlock();
      TERAIO_RETURN_IF_ERROR(make(input));
      lock.lock();
      tensor = tensor_of(input);
    }
    TERAIO_RETURN_IF_ERROR(replays_.host_.pin(lock, tensor));
    pinned_.push_back(tensor);
    if (input.tensor == nullptr || input.version == tensor->replay.version) return {};
    return Status(ErrorCode::kInternal,
                  fmt::format("tensor {} ({}) has changed, and a discarded tensor is made from it",
                              tensor->id, format_size(tensor->size_bytes)));
  }

  Replays& replays_;
  const engine::Recipe& recipe_;
  Chain& chain_;
  std::vector<engine::LiveTensor*> pinned_;  // in the order of the recipe's inputs
  std::vector<std::shared_ptr<engine::Recipe>> replayed_;
};

Replays::Replays(Host host, WaitWithoutOtherLock wait_for_lock)
    : host_(std::move(host)), turn_mutex_(std::move(wait_for_lock)) {}

Status Replays::run_due(RuntimeLock& lock) {
  const engine::DueReplay due = host_.engine.discards().take_due();
  lock.unlock();
  Status status = replay_in_turn(due);
  lock.lock();
  // One that the plan asks for is not needed yet: whoever needs it tries again.
  return due.is_planned && status.code() != ErrorCode::kInterrupted ? Status() : status;
}

Status Replays::replay_in_turn(const engine::DueReplay& due) {
  const Turn turn(*this);
  Chain chain(*this, *due.recipe);
  TERAIO_RETURN_IF_ERROR(replay(due.recipe, due.is_temporary, chain));
  const std::lock_guard lock(host_.mutex);
  engine::ReplayCounters& counters = host_.engine.discards().counters();
  ++(due.is_planned ? counters.planned : counters.on_demand);
  if (due.is_temporary) open_temporaries_.push_back(due.recipe);
  return {};
}

// `keeps_results`: they are temporaries for replays that follow.
Status Replays::replay(const std::shared_ptr<engine::Recipe>& recipe, bool keeps_results,
                       Chain& chain) {
  Status status = try_replay(recipe, keeps_results, chain);
  if (status.code() == ErrorCode::kOutOfMemory && chain.drop_idle())
    status = try_replay(recipe, keeps_results, chain);
  return status;
}

Status Replays::try_replay(const std::shared_ptr<engine::Recipe>& recipe, bool keeps_results,
                           Chain& chain) {
  const auto is_superfluous = [&] {
    const std::lock_guard lock(host_.mutex);
    return keeps_results ? recipe->temporaries != nullptr : !has_discarded_result(*recipe);
  };
  if (is_superfluous()) return {};
  HeldInputs inputs(*this, *recipe, chain);
  if (Status status = inputs.hold(); !status.ok())  // another thread may have dropped both
    return is_superfluous() ? Status() : status;
  const int64_t start_ns = host_.clock.now_ns();
  Result<std::unique_ptr<engine::ReplayResults>> made =
      host_.replayer->run(*recipe->op, inputs.addresses());
  if (!made.ok()) return made.status();
  if (!keeps_results) drop_read_temporaries(*recipe);
  const std::lock_guard lock(host_.mutex);
  host_.observer.note_replay(*recipe, start_ns);
  if (keeps_results) {
    recipe->temporaries = std::move(*made);
    return {};
  }
  return host_.engine.discards().take_results(*recipe, (*made)->tensors());
}

// A planned replay has read them: those that no other one waits for are freed.
void Replays::drop_read_temporaries(const engine::Recipe& recipe) {
  Temporaries dropped;  // freed without the lock
  const std::lock_guard lock(host_.mutex);
  for (const engine::RecipeInput& input : recipe.inputs) {
    engine::Recipe* maker = input.maker.get();
    if (maker == nullptr || maker->temporary_readers == 0) continue;
    if (--maker->temporary_readers == 0) dropped.push_back(std::move(maker->temporaries));
  }
}

// The op before which they were made begins: no replay reads them any more.
void Replays::drop_open_temporaries(RuntimeLock& lock) {
  Temporaries dropped;
  for (const std::shared_ptr<engine::Recipe>& recipe : open_temporaries_) {
    recipe->temporary_readers = 0;
    dropped.push_back(std::move(recipe->temporaries));
  }
  open_temporaries_.clear();
  lock.unlock();  // freeing them takes it
}

Status Replays::replay_all() {
  std::unique_lock lock(host_.mutex);
  host_.engine.discards().end();  // other threads' ops go on
  failure_ = Status();
  uint64_t next_id = 0;
  while (const engine::LiveTensor* tensor = host_.engine.discards().first(next_id)) {
    next_id = tensor->id + 1;
    const engine::DueReplay due = {tensor->replay.recipe};  // let go of under the lock
    lock.unlock();
    Status status = replay_in_turn(due);
    lock.lock();
    const bool may_succeed_later =
        status.code() == ErrorCode::kOutOfMemory || status.code() == ErrorCode::kInterrupted;
    if (may_succeed_later) return status;
    if (!status.ok()) failure_ = std::move(status);
  }
  return {};
}

}  // namespace teraio::runtime
