#include "planner/forecast.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <queue>
#include <tuple>

namespace teraio::planner {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int64_t kIterationsMax = 6;  // backlogs that pass the iteration's end settle by then
constexpr double kSettled = 1e-4;

enum class Place : uint8_t { kDevice, kWriting, kTier, kReading };

struct Read {
  int64_t deadline = 0;  // unrolled op
  int32_t period = 0;
  bool operator<(const Read& other) const {  // the top of a queue is the earliest
    return std::tie(deadline, period) > std::tie(other.deadline, other.period);
  }
};

// One transfer at a time; `work` shrinks by `speed` per nanosecond.
struct Channel {
  int32_t period = -1;
  double work = 0;  // nanoseconds at full speed
  double speed = 0;
  bool busy() const { return period >= 0; }
  double rest_ns() const { return busy() ? work / speed : kNever; }
};

class Forecaster {
 public:
  explicit Forecaster(const Draft& draft)
      : draft_(draft),
        problem_(draft.problem()),
        count_(problem_.op_count()),
        budget_bytes_(problem_.budget_bytes()),
        half_duplex_(std::min(1.0, ssd_duplex(problem_.hardware) / 2)),
        places_(problem_.trace.tensors.size(), Place::kDevice),
        queued_reads_(problem_.trace.tensors.size(), -1),
        born_bytes_(count_),
        dead_bytes_(count_),
        leaves_(count_),
        returns_(count_),
        die_away_(count_) {
    prepare_lives();
    prepare_moves();
    prepare_tiers();
  }

  std::optional<Execution> run() {
    result_.stretched_ns.resize(count_);
    issue();
    double before_ns = 0;
    for (int64_t iteration = 1; iteration <= kIterationsMax; ++iteration) {
      const double began_ns = now_ns_;
      if (!run_until(iteration * count_)) return std::nullopt;
      result_.step_ns = now_ns_ - began_ns;
      if (std::abs(result_.step_ns - before_ns) < kSettled * before_ns) break;
      before_ns = result_.step_ns;
    }
    return result_;
  }

 private:
  const trace::InactivePeriod& period(int32_t index) const {
    return problem_.lifetimes.periods[index];
  }

  bool run_until(int64_t op) {
    while (op_ < op) {
      start_op();
      start_transfers();
      if (!advance()) return false;
    }
    return true;
  }

  void prepare_lives() {
    std::vector<int64_t> last(problem_.trace.tensors.size(), -1);
    std::vector<bool> born(problem_.trace.tensors.size(), false);
    const auto touch = [&](trace::TensorIndex tensor, int64_t op) {
      const trace::Tensor& own = problem_.trace.tensors[tensor];
      if (own.persistent) return;
      if (!born[tensor]) born_bytes_[op] += own.size_bytes;
      born[tensor] = true;
      last[tensor] = op;
    };
    for (int64_t k = 0; k < count_; ++k) {
      const trace::Op& op = problem_.trace.ops[k];
      for (trace::TensorIndex tensor : op.reads) touch(tensor, k);
      for (trace::TensorIndex tensor : op.writes) touch(tensor, k);
      for (trace::TensorIndex tensor : op.frees) last[tensor] = k;
    }
    for (size_t i = 0; i < last.size(); ++i) {
      const trace::Tensor& own = problem_.trace.tensors[i];
      if (last[i] >= 0) dead_bytes_[last[i]] += own.size_bytes;
      if (own.persistent) used_bytes_ += own.size_bytes;
    }
  }

  void prepare_moves() {
    for (size_t i = 0; i < problem_.lifetimes.periods.size(); ++i) {
      const int32_t index = static_cast<int32_t>(i);
      if (!draft_.moved(index)) continue;
      leaves_[period(index).first % count_].push_back(index);
      if (period(index).until_freed) {
        die_away_[period(index).deadline()].push_back(index);
        continue;
      }
      returns_[draft_.at(index).needed_from % count_].push_back(index);
      if (draft_.at(index).needed_from < count_) continue;
      places_[period(index).tensor] = Place::kTier;
      used_bytes_ -= problem_.size_bytes(index);
    }
    for (std::vector<int32_t>& list : returns_)
      std::sort(list.begin(), list.end(), [this](int32_t a, int32_t b) {
        return std::pair(period(a).end, a) < std::pair(period(b).end, b);
      });
  }

  void prepare_tiers() {
    for (plan::Tier tier : {plan::Tier::kSsd, plan::Tier::kHost})
      tier_room_bytes_[static_cast<size_t>(tier)] = problem_.tier_capacity_bytes(tier);
    for (size_t i = 0; i < problem_.lifetimes.epochs.size(); ++i) {
      const int32_t period = problem_.lifetimes.epochs[i].periods.front();
      const std::optional<plan::Tier> tier = draft_.tier_of_copy(period);
      if (tier && draft_.copy_rests_at_start(static_cast<int32_t>(i)))
        tier_room_bytes_[static_cast<size_t>(*tier)] -= problem_.size_bytes(period);
    }
  }

  // Before op_ starts.
  void issue() {
    for (int32_t index : leaves_[op_ % count_]) {
      places_[period(index).tensor] = Place::kWriting;
      if (draft_.at(index).writes)
        writes_[static_cast<size_t>(draft_.at(index).tier)].push_back(index);
      else
        written(index);
    }
    for (int32_t index : returns_[op_ % count_]) {
      if (places_[period(index).tensor] == Place::kWriting)
        queued_reads_[period(index).tensor] = index;
      else if (places_[period(index).tensor] == Place::kTier)
        queue_read(index);
    }
  }

  void written(int32_t index) {
    const trace::TensorIndex tensor = period(index).tensor;
    places_[tensor] = Place::kTier;
    used_bytes_ -= problem_.size_bytes(index);
    if (queued_reads_[tensor] >= 0) queue_read(queued_reads_[tensor]);
    queued_reads_[tensor] = -1;
  }

  void queue_read(int32_t index) {
    const int64_t now = op_ % count_;
    const int64_t ahead = ((period(index).end - now) % count_ + count_) % count_;
    reads_[static_cast<size_t>(draft_.at(index).tier)].push({op_ + ahead, index});
  }

  // What the next op still has to take.
  int64_t missing_bytes() const {
    const trace::Op& op = problem_.trace.ops[op_ % count_];
    int64_t bytes = born_bytes_[op_ % count_] + op.workspace_bytes;
    for (const std::vector<trace::TensorIndex>* list : {&op.reads, &op.writes})
      for (trace::TensorIndex tensor : *list)
        if (places_[tensor] == Place::kTier || places_[tensor] == Place::kWriting)
          bytes += problem_.trace.tensors[tensor].size_bytes;
    return bytes;
  }

  bool resident(const std::vector<trace::TensorIndex>& tensors) const {
    return std::all_of(tensors.begin(), tensors.end(), [this](trace::TensorIndex tensor) {
      return places_[tensor] == Place::kDevice;
    });
  }

  void start_op() {
    if (running_) return;
    const int64_t local = op_ % count_;
    const trace::Op& op = problem_.trace.ops[local];
    const int64_t takes = born_bytes_[local] + op.workspace_bytes;
    if (!resident(op.reads) || !resident(op.writes) || used_bytes_ + takes > budget_bytes_) return;
    used_bytes_ += takes;
    running_ = true;
    op_end_ns_ = now_ns_ + static_cast<double>(op.duration_ns);
  }

  void end_op() {
    const int64_t local = op_ % count_;
    used_bytes_ -= dead_bytes_[local] + problem_.trace.ops[local].workspace_bytes;
    for (int32_t index : die_away_[local]) die_away(index);
    result_.stretched_ns[local] = now_ns_ - last_end_ns_;
    last_end_ns_ = now_ns_;
    running_ = false;
    ++op_;
    issue();
  }

  // Freed while it is away, or on the way: a write of it stops.
  void die_away(int32_t index) {
    const size_t tier = static_cast<size_t>(draft_.at(index).tier);
    Place& place = places_[period(index).tensor];
    Channel& channel = channels_[2 * tier];
    const bool was_written = place == Place::kWriting;
    if (place == Place::kTier) used_bytes_ += problem_.size_bytes(index);  // not freed again
    place = Place::kDevice;
    if (was_written && channel.period != index) {
      std::erase(writes_[tier], index);
      return;
    }
    if (was_written) channel.period = -1;
    tier_room_bytes_[tier] += problem_.size_bytes(index);
    set_speeds();
  }

  void start_transfers() {
    bool changed = false;
    for (plan::Tier tier : {plan::Tier::kSsd, plan::Tier::kHost}) {
      changed |= start_write(tier);
      changed |= start_read(tier);
    }
    if (changed) set_speeds();
  }

  bool start_write(plan::Tier tier) {
    std::deque<int32_t>& queue = writes_[static_cast<size_t>(tier)];
    Channel& channel = channels_[2 * static_cast<size_t>(tier)];
    if (channel.busy() || queue.empty()) return false;
    int64_t& room_bytes = tier_room_bytes_[static_cast<size_t>(tier)];
    const int64_t bytes = problem_.size_bytes(queue.front());
    if (bytes > room_bytes) return false;
    room_bytes -= bytes;
    start(channel, queue.front(), Direction::kWrite);
    queue.pop_front();
    return true;
  }

  // Only a read that the next op waits for may take the memory that this op needs.
  bool start_read(plan::Tier tier) {
    std::priority_queue<Read>& queue = reads_[static_cast<size_t>(tier)];
    Channel& channel = channels_[2 * static_cast<size_t>(tier) + 1];
    if (channel.busy() || queue.empty()) return false;
    const Read read = queue.top();
    const int64_t next_op = op_ + (running_ ? 1 : 0);
    const int64_t bytes = problem_.size_bytes(read.period);
    const int64_t reserve = read.deadline <= next_op ? 0 : missing_bytes_of_next();
    if (used_bytes_ + bytes + reserve > budget_bytes_) return false;
    queue.pop();
    places_[period(read.period).tensor] = Place::kReading;
    used_bytes_ += bytes;
    start(channel, read.period, Direction::kRead);
    return true;
  }

  // While an op runs, what it takes is in used_bytes_ already: the one after it counts.
  int64_t missing_bytes_of_next() {
    if (!running_) return missing_bytes();
    ++op_;
    const int64_t bytes = missing_bytes();
    --op_;
    return bytes;
  }

  void start(Channel& channel, int32_t index, Direction direction) {
    channel.period = index;
    channel.work =
        draft_.ledger().alone_ns(draft_.at(index).tier, direction, problem_.size_bytes(index));
  }

  void set_speeds() {
    for (Channel& channel : channels_) channel.speed = 1;
    if (channels_[0].busy() && channels_[1].busy())
      channels_[0].speed = channels_[1].speed = half_duplex_;
    for (size_t direction : {0, 1}) {
      Channel& ssd = channels_[direction];
      Channel& host = channels_[2 + direction];
      if (ssd.busy() && host.busy())
        host.speed = draft_.ledger().host_share(static_cast<Direction>(direction), ssd.speed);
    }
  }

  bool advance() {
    double step_ns = running_ ? op_end_ns_ - now_ns_ : kNever;
    for (const Channel& channel : channels_) step_ns = std::min(step_ns, channel.rest_ns());
    if (step_ns == kNever) return false;
    step_ns = std::max(step_ns, 0.0);
    now_ns_ += step_ns;
    bool changed = false;
    for (Channel& channel : channels_)
      if (channel.busy()) channel.work -= step_ns * channel.speed;
    for (size_t i = 0; i < channels_.size(); ++i)
      if (channels_[i].busy() && channels_[i].work <= 0.5) changed = finish(i);
    if (changed) set_speeds();
    if (running_ && op_end_ns_ <= now_ns_ + 0.25) end_op();
    return true;
  }

  bool finish(size_t channel) {
    const int32_t index = channels_[channel].period;
    channels_[channel].period = -1;
    if (channel % 2 == static_cast<size_t>(Direction::kWrite))
      written(index);
    else
      arrived(index);
    return true;
  }

  void arrived(int32_t index) {
    places_[period(index).tensor] = Place::kDevice;
    if (draft_.is_last_use_of_copy(index))
      tier_room_bytes_[static_cast<size_t>(draft_.at(index).tier)] += problem_.size_bytes(index);
  }

  const Draft& draft_;
  const Problem& problem_;
  const int64_t count_;
  const int64_t budget_bytes_;
  const double half_duplex_;
  std::vector<Place> places_;
  std::vector<int32_t> queued_reads_;  // per tensor: the read that waits for its write
  std::vector<int64_t> born_bytes_;
  std::vector<int64_t> dead_bytes_;
  std::vector<std::vector<int32_t>> leaves_;    // per op: moved periods that begin
  std::vector<std::vector<int32_t>> returns_;   // per op: those whose read is issued
  std::vector<std::vector<int32_t>> die_away_;  // per op: those that end with the tensor's death
  std::array<Channel, 4> channels_;
  std::array<std::deque<int32_t>, 2> writes_;
  std::array<std::priority_queue<Read>, 2> reads_;
  std::array<int64_t, 2> tier_room_bytes_{};
  int64_t used_bytes_ = 0;
  int64_t op_ = 0;  // unrolled: the one that runs, or the next
  bool running_ = false;
  double now_ns_ = 0;
  double op_end_ns_ = 0;
  double last_end_ns_ = 0;
  Execution result_;
};

}  // namespace

std::optional<Execution> forecast(const Draft& draft) { return Forecaster(draft).run(); }

}  // namespace teraio::planner
