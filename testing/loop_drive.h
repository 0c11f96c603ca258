// LoopDrive: a drive for one test, a file system on a loop device. Needs root.
//
// Mounts are in a namespace of the test's process, and the loop device frees itself, so nothing is
// left if the process is killed.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "testing/scratch_directory.h"

namespace teraio::testing {

class LoopDrive {
 public:
  // `file_system` is "ext4", "ext2" or "xfs". The backing file is sparse and lies in `folder`.
  // `mount_options` are passed to mount(2).
  LoopDrive(const std::filesystem::path& folder, const std::string& file_system, int64_t size_bytes,
            int32_t sector_bytes = 512, std::string mount_options = "")
      : folder_(folder), backing_(folder / "backing"), mount_options_(std::move(mount_options)) {
    std::ofstream{backing_};
    std::error_code error;
    std::filesystem::resize_file(backing_, static_cast<uint64_t>(size_bytes), error);
    why_not_ = error ? error.message() : enter_namespace();
    if (why_not_.empty()) why_not_ = set_up(file_system, sector_bytes);
  }
  LoopDrive(const LoopDrive&) = delete;
  LoopDrive& operator=(const LoopDrive&) = delete;
  ~LoopDrive() {
    umount2(path().c_str(), MNT_DETACH);
    std::error_code ignored;
    std::filesystem::remove(backing_, ignored);
    std::filesystem::remove(path(), ignored);
  }

  // Makes further mounts private to this process. Returns the reason if that is impossible.
  static std::string enter_namespace() {
    if (geteuid() != 0) return "loop devices and mounts need root";
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
      return "mount namespaces are not available here";
    return "";
  }

  // Returns stdout and stderr of a shell command.
  static std::string output_of(const std::string& command, int& exit_code) {
    FILE* pipe = popen((command + " 2>&1").c_str(), "r");
    std::string text;
    std::array<char, 256> part;
    while (fgets(part.data(), part.size(), pipe) != nullptr) text += part.data();
    exit_code = pclose(pipe);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  }

  // Why there is no drive; empty if there is one.
  const std::string& why_not() const { return why_not_; }
  std::filesystem::path path() const { return folder_ / "drive"; }

  // Breaks the drive: bytes that were not read before can no longer be read.
  void lose_everything() { std::filesystem::resize_file(backing_, 0); }

  // The drive ends at `size_bytes` from now on: whatever goes beyond fails. Returns the reason if
  // that is impossible.
  std::string cut_off(int64_t size_bytes) {
    std::filesystem::resize_file(backing_, static_cast<uint64_t>(size_bytes));
    int failed = 0;
    const std::string text = output_of("losetup --set-capacity \"$(losetup --associated '" +
                                           backing_.string() + "' --output NAME --noheadings)\"",
                                       failed);
    return failed != 0 ? "losetup: " + text : "";
  }

 private:
  std::string set_up(const std::string& file_system, int32_t sector_bytes) {
    std::filesystem::create_directory(path());
    int failed = 0;
    const std::string device =
        output_of("losetup --find --show --direct-io=on --sector-size " +
                      std::to_string(sector_bytes) + " '" + backing_.string() + "'",
                  failed);
    if (failed != 0) return "losetup: " + device;
    std::string problem = output_of("mkfs." + file_system + " -q " + device, failed);
    if (failed == 0 &&
        mount(device.c_str(), path().c_str(), file_system.c_str(), 0, mount_options_.c_str()) == 0)
      problem.clear();
    else
      problem = "mkfs." + file_system + " or mounting it: " + problem;
    int ignored = 0;
    output_of("losetup --detach " + device, ignored);  // takes effect when it is unmounted
    return problem;
  }

  std::filesystem::path folder_;
  std::filesystem::path backing_;
  std::string mount_options_;
  std::string why_not_;
};

}  // namespace teraio::testing
