#include "probe/rank_share.h"

#include <algorithm>

#include "drives/drive_identity.h"

namespace teraio::probe {
namespace {

Result<bool> has_directory_on(const drives::DriveIdentity& drive, const Directories& directories) {
  for (const std::filesystem::path& directory : directories) {
    const Result<drives::DriveIdentity> other = drives::identify_drive(directory);
    if (!other.ok()) return other.status();
    if (other->is_same_drive(drive)) return true;
  }
  return false;
}

}  // namespace

Result<int32_t> ranks_on_drive(const std::filesystem::path& directory,
                               std::span<const Directories> ranks) {
  const Result<drives::DriveIdentity> drive = drives::identify_drive(directory);
  if (!drive.ok()) return drive.status();
  int32_t count = 0;
  for (const Directories& directories : ranks) {
    const Result<bool> has_one = has_directory_on(*drive, directories);
    if (!has_one.ok()) return has_one.status();
    count += *has_one ? 1 : 0;
  }
  return std::max(count, 1);
}

DriveProbe share_of(DriveProbe drive, int32_t rank_count) {
  drive.capacity_bytes /= rank_count;
  drive.rates.read_bytes_per_second /= rank_count;
  drive.rates.write_bytes_per_second /= rank_count;
  return drive;
}

}  // namespace teraio::probe
