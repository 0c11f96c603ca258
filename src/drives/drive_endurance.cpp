#include "drives/drive_endurance.h"

#include "drives/drive_facts.h"
#include "drives/drive_identity.h"

namespace teraio::drives {
namespace {

constexpr int64_t kTerabyte = 1'000'000'000'000;

struct Rating {
  std::string_view model;  // contained in the model that the drive reports
  int64_t terabytes_written;
  std::string_view source;
};

constexpr std::string_view kSamsungWarranty =
    "Samsung's warranty terms, samsung.com/cn/support/warranty/warrantyinformation14.html";
// Not from the maker's own page; the text names the source so that the reader can judge it.
constexpr std::string_view kTechSpot =
    "not the maker's page: TechSpot on Samsung's announcement of 2018, techspot.com/news/74297";
constexpr std::string_view kMezha =
    "not the maker's page: Mezha on Samsung's announcement of 2023, mezha.media";
constexpr std::string_view kListing =
    "not the maker's page: a list of drives, pgrid.app/au/ssds, read in 2026";

constexpr Rating kRatings[] = {
    {"Samsung SSD 970 EVO 250GB", 150, kTechSpot},
    {"Samsung SSD 970 EVO 500GB", 300, kTechSpot},
    {"Samsung SSD 970 EVO 1TB", 600, kTechSpot},
    {"Samsung SSD 970 EVO 2TB", 1200, kTechSpot},
    {"Samsung SSD 980 250GB", 150, kSamsungWarranty},
    {"Samsung SSD 980 500GB", 300, kSamsungWarranty},
    {"Samsung SSD 980 1TB", 600, kSamsungWarranty},
    {"Samsung SSD 980 PRO 250GB", 150, kSamsungWarranty},
    {"Samsung SSD 980 PRO 500GB", 300, kSamsungWarranty},
    {"Samsung SSD 980 PRO 1TB", 600, kSamsungWarranty},
    {"Samsung SSD 980 PRO 2TB", 1200, kSamsungWarranty},
    {"Samsung SSD 990 PRO 1TB", 600, kSamsungWarranty},
    {"Samsung SSD 990 PRO 2TB", 1200, kSamsungWarranty},
    {"Samsung SSD 990 PRO with Heatsink 1TB", 600, kSamsungWarranty},
    {"Samsung SSD 990 PRO with Heatsink 2TB", 1200, kSamsungWarranty},
    {"Samsung SSD 990 PRO 4TB", 2400, kMezha},
    {"WD_BLACK SN850X 1000GB", 600, kListing},
    {"WD_BLACK SN850X 2000GB", 1200, kListing},
    {"WD_BLACK SN850X 4000GB", 2400, kListing},
};

}  // namespace

std::optional<RatedEndurance> rated_endurance(std::string_view model) {
  for (const Rating& rating : kRatings) {
    if (model.find(rating.model) == std::string_view::npos) continue;
    return RatedEndurance{rating.terabytes_written * kTerabyte, rating.source};
  }
  return std::nullopt;
}

std::optional<int64_t> rated_bytes_written(const std::filesystem::path& directory) {
  const Result<DriveIdentity> drive = identify_drive(directory);
  if (!drive.ok() || drive->folder.empty()) return std::nullopt;
  const auto rating = rated_endurance(read_drive_facts(drive->folder).model);
  return rating ? std::optional(rating->bytes_written) : std::nullopt;
}

}  // namespace teraio::drives
