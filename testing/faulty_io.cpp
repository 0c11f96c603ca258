#include "testing/faulty_io.h"

#include <algorithm>
#include <cerrno>
#include <random>
#include <unordered_map>
#include <utility>

namespace teraio::testing {
namespace {

class FaultyIo final : public io::DriveIo {
 public:
  FaultyIo(std::unique_ptr<io::DriveIo> drive, FaultSchedule schedule)
      : drive_(std::move(drive)), schedule_(std::move(schedule)) {}

  std::string_view description() const override { return drive_->description(); }
  void submit(const io::IoRequest& request) override;
  void wait(std::vector<io::IoResult>& results) override;
  void wake() override { drive_->wake(); }

 private:
  struct UnderWay {
    io::IoRequest request;
    Fault fault;
  };
  struct Held {
    io::IoResult result;
    int32_t overtaken_by = 0;
  };

  void take(const io::IoResult& result);
  void return_held(std::vector<io::IoResult>& results);

  std::unique_ptr<io::DriveIo> drive_;
  FaultSchedule schedule_;
  std::unordered_map<uint64_t, UnderWay> under_way_;  // submitted to the drive
  std::vector<Held> held_;                            // ended, but not yet returned
};

void FaultyIo::submit(const io::IoRequest& request) {
  const Fault fault = schedule_(request).value_or(Fault());
  if (fault.error_number != 0) {
    held_.push_back({{request.tag, -fault.error_number}, fault.overtaken_by});
    return;
  }
  io::IoRequest passed = request;
  if (fault.short_bytes >= 0) {
    const int64_t whole_bytes = fault.short_bytes / io::kBlockBytes * io::kBlockBytes;
    passed.size_bytes = std::clamp(whole_bytes, io::kBlockBytes, request.size_bytes);
  }
  under_way_.emplace(request.tag, UnderWay{passed, fault});
  drive_->submit(passed);
}

void FaultyIo::take(const io::IoResult& result) {
  const auto it = under_way_.find(result.tag);
  const auto& [request, fault] = it->second;
  if (fault.corrupts && request.direction == io::Direction::kRead && result.result > 0)
    request.memory[result.result / 2] ^= std::byte{1};
  for (Held& held : held_) --held.overtaken_by;
  held_.push_back({result, fault.overtaken_by});
  under_way_.erase(it);
}

void FaultyIo::return_held(std::vector<io::IoResult>& results) {
  const bool others_come = !under_way_.empty();
  std::vector<Held> kept;
  for (const Held& held : held_) {
    if (others_come && held.overtaken_by > 0)
      kept.push_back(held);
    else
      results.push_back(held.result);
  }
  held_ = std::move(kept);
}

void FaultyIo::wait(std::vector<io::IoResult>& results) {
  const size_t count = results.size();
  return_held(results);
  if (results.size() > count) return;
  std::vector<io::IoResult> ended;
  drive_->wait(ended);
  for (const io::IoResult& result : ended) take(result);
  return_held(results);
}

}  // namespace

std::unique_ptr<io::DriveIo> make_faulty_io(std::unique_ptr<io::DriveIo> drive,
                                            FaultSchedule schedule) {
  return std::make_unique<FaultyIo>(std::move(drive), std::move(schedule));
}

FaultSchedule random_faults(uint64_t seed, const FaultRates& rates) {
  return [rates, random = std::mt19937_64(seed)](const io::IoRequest& request) mutable {
    const auto happens = [&](double chance) { return std::bernoulli_distribution(chance)(random); };
    Fault fault;
    if (happens(rates.passing)) fault.error_number = happens(0.5) ? EAGAIN : EINTR;
    if (happens(rates.partial))
      fault.short_bytes = std::uniform_int_distribution<int64_t>(0, request.size_bytes)(random);
    if (happens(rates.late)) fault.overtaken_by = std::uniform_int_distribution(1, 8)(random);
    if (happens(rates.io_error)) fault.error_number = EIO;
    if (happens(rates.full) && request.direction == io::Direction::kWrite)
      fault.error_number = ENOSPC;
    return std::optional<Fault>(fault);
  };
}

}  // namespace teraio::testing
