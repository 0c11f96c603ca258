#include "testing/cuda_emulation/nccl/group.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace teraio::testing::emulated_nccl {
namespace {

// Communicators of one thread wait for each other.
Outcome connect_all(const std::vector<std::shared_ptr<Communicator>>& communicators) {
  std::vector<Outcome> outcomes(communicators.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < communicators.size(); ++i)
    threads.emplace_back([&, i] { outcomes[i] = communicators[i]->connect(); });
  for (std::thread& thread : threads) thread.join();
  const auto failed = std::find_if(outcomes.begin(), outcomes.end(),
                                   [](const Outcome& outcome) { return !outcome.is_ok(); });
  return failed == outcomes.end() ? Outcome{} : *failed;
}

}  // namespace

Group& Group::of_this_thread() {
  thread_local Group group;
  return group;
}

Outcome Group::connect(const std::shared_ptr<Communicator>& communicator) {
  if (!is_open()) return communicator->connect();
  connecting_.push_back(communicator);
  return {};
}

Outcome Group::submit(const std::shared_ptr<Communicator>& communicator, Call call,
                      cudaStream_t stream) {
  if (!is_open()) return communicator->submit({std::move(call)}, {stream});
  const auto is_of = [&](const Pending& each) { return each.communicator == communicator; };
  auto found = std::find_if(pending_.begin(), pending_.end(), is_of);
  if (found == pending_.end()) found = pending_.insert(found, {communicator, {}, {}});
  found->calls.push_back(std::move(call));
  found->streams.insert(stream);
  return {};
}

Outcome Group::refuse(Outcome outcome) {
  if (is_open() && failure_.is_ok()) failure_ = outcome;
  return outcome;
}

Outcome Group::end() {
  if (depth_ == 0) return {ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart"};
  if (--depth_ > 0) return {};
  const Outcome outcome = failure_.is_ok() ? run() : failure_;
  failure_ = {};
  connecting_.clear();
  pending_.clear();
  return outcome;
}

Outcome Group::run() {
  if (const Outcome connected = connect_all(connecting_); !connected.is_ok()) return connected;
  for (const Pending& each : pending_) {
    const Outcome outcome = each.communicator->submit(each.calls, each.streams);
    if (!outcome.is_ok()) return outcome;
  }
  return {};
}

}  // namespace teraio::testing::emulated_nccl
