// FailingDrive: a drive whose sectors fail when the test says so. It is a loop device on a file
// that nbdkit's error filter serves through FUSE, so that errors come from the kernel's block
// layer, as those of a bad drive do. Needs root.
#pragma once

#include <sys/mount.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "testing/loop_drive.h"

namespace teraio::testing {

class FailingDrive {
 public:
  // `failures` are arguments of the error filter: "error-pread=EIO error-pread-rate=20%".
  FailingDrive(const std::filesystem::path& folder, const std::string& failures) : folder_(folder) {
    std::filesystem::create_directory(served());
    why_not_ = serve(failures);
    if (!why_not_.empty()) return;
    drive_ = std::make_unique<LoopDrive>(folder, "ext4", served() / "image");
    why_not_ = drive_->why_not();
  }
  FailingDrive(const FailingDrive&) = delete;
  FailingDrive& operator=(const FailingDrive&) = delete;
  ~FailingDrive() {
    recover();
    drive_.reset();
    umount2(served().c_str(), MNT_DETACH);  // ends nbdfuse, and nbdkit with it
  }

  // Why there is no drive; empty if there is one.
  const std::string& why_not() const { return why_not_; }
  std::filesystem::path path() const { return drive_->path(); }

  void fail() { std::ofstream{trigger()}; }
  void recover() { std::filesystem::remove(trigger()); }

 private:
  std::filesystem::path served() const { return folder_ / "served"; }
  std::filesystem::path trigger() const { return folder_ / "failing"; }

  std::string serve(const std::string& failures) {
    int failed = 0;
    LoopDrive::output_of("command -v nbdkit && command -v nbdfuse && test -c /dev/fuse", failed);
    if (failed != 0) return "no nbdkit, nbdfuse (Debian: libnbd-bin) or /dev/fuse here";
    if (std::string reason = LoopDrive::enter_namespace(); !reason.empty()) return reason;
    const std::string ready = (folder_ / "ready").string();
    const std::string log = (folder_ / "log").string();
    LoopDrive::output_of(
        "nbdfuse --pidfile '" + ready + "' '" + (served() / "image").string() +
            "' --command nbdkit -s --exit-with-parent --filter=error memory 128M " + failures +
            " error-file='" + trigger().string() + "' >'" + log + "' 2>&1 </dev/null &",
        failed);
    for (int i = 0; i < 1000 && !std::filesystem::exists(ready); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (std::filesystem::exists(ready)) return "";
    std::string reason;
    std::getline(std::ifstream(log), reason);
    return "nbdfuse does not start: " + reason;
  }

  std::filesystem::path folder_;
  std::unique_ptr<LoopDrive> drive_;
  std::string why_not_;
};

}  // namespace teraio::testing
