// DrySession: the observer and the recorder on a program whose tensors are fake.
//
// The device counts bytes and has none, the clock goes on by what each op is said to take, and
// nothing ever moves. What comes out is an ordinary trace.
//
// Threads: one at a time may start and stop it; everything else may come from any thread.
#pragma once

#include <c10/core/StorageImpl.h>

#include <filesystem>
#include <memory>
#include <string>

#include "active_session.h"
#include "base/status.h"
#include "engine/runtime.h"

namespace teraio::pytorch {

struct DrySessionOptions {
  // The memory of the device that is played: list ops run in pieces of a share of it.
  int64_t device_memory_bytes = 0;
};

class DrySession {
 public:
  explicit DrySession(const DrySessionOptions& options);
  ~DrySession();
  DrySession(const DrySession&) = delete;
  DrySession& operator=(const DrySession&) = delete;

  // The hooks go on, in the calling thread and those that it starts. One session at a time.
  Status start();
  Status stop();

  // The storages were born just now, in the op that runs or between ops.
  void add_birth(c10::StorageImpl& storage);
  // The program has changed its size without an op.
  void resize(c10::StorageImpl& storage);
  // The op that runs takes this much longer, and has this much memory meanwhile.
  Status spend(int64_t duration_ns, int64_t workspace_bytes);

  engine::Runtime& runtime() { return *runtime_; }
  // The iteration that has repeated, said to come from `source`. kInvalidArgument while none has.
  Status save_trace(const std::filesystem::path& path, const std::string& source) const;

 private:
  struct Machine;  // what storages may outlive the session with

  std::shared_ptr<Machine> machine_;
  std::shared_ptr<engine::Runtime> runtime_;  // shares the machine's ownership
  ActiveSession* active_;                     // stays for good: see active_session()
};

}  // namespace teraio::pytorch
