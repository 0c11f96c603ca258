// DrySession: runs the observer and the recorder on a program whose tensors are fake.
//
// The device only counts bytes, the clock advances by the duration that each op is given, and no
// tensor moves. The result is an ordinary trace.
//
// Threads: one thread at a time may start and stop the session; any thread may call the rest.
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
  // The memory of the simulated device. List ops run in pieces of a share of it.
  int64_t device_memory_bytes = 0;
};

class DrySession {
 public:
  explicit DrySession(const DrySessionOptions& options);
  ~DrySession();
  DrySession(const DrySession&) = delete;
  DrySession& operator=(const DrySession&) = delete;

  // Turns the hooks on in the calling thread and in the threads that it starts. Fails when another
  // session is active.
  Status start();
  Status stop();

  // Registers `storage` as created by the running op, or between ops.
  void add_birth(c10::StorageImpl& storage);
  // Registers that the program changed the size of `storage` without an op.
  void resize(c10::StorageImpl& storage);
  // Adds `duration_ns` to the running op's time and `workspace_bytes` to its temporary memory.
  Status spend(int64_t duration_ns, int64_t workspace_bytes);

  engine::Runtime& runtime() { return *runtime_; }
  // Writes the iteration that has repeated as a trace that names `source` as its origin. Fails with
  // kInvalidArgument when no iteration has repeated yet.
  Status save_trace(const std::filesystem::path& path, const std::string& source) const;

 private:
  struct Machine;  // what storages may need after the session has ended

  std::shared_ptr<Machine> machine_;
  std::shared_ptr<engine::Runtime> runtime_;  // shares the machine's ownership
  ActiveSession* active_;                     // never freed
};

}  // namespace teraio::pytorch
