// The fuzzer's fixed part: every file of the corpus, and each changed in ways that repeat.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "fuzz/reader_check.h"
#include "testing/generated_trace.h"
#include "testing/test_files.h"

namespace teraio {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr int kChangesPerFile = 100;

std::vector<std::filesystem::path> corpus() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(testing::test_data("corpus")))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

Bytes bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

void put(Bytes& bytes, size_t at, std::string_view text) {
  bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), text.begin(), text.end());
}

// What a fuzzer does: flips, cuts, repeats, and values at the edges of their types.
void change(Bytes& bytes, testing::Random& random) {
  static constexpr std::string_view kPieces[] = {
      "9223372036854775807",  "-1", "1e999", "0.5",     "null", "[]", "{}",   "\"\"",
      "18446744073709551616", ",",  "]",     "\"id\":", "true", "\0", "\xff", "[[[[[[[["};
  const auto at = [&] { return static_cast<size_t>(random.between(0, bytes.size())); };
  const size_t first = at();
  const size_t last = std::min(bytes.size(), first + static_cast<size_t>(random.between(1, 20)));
  const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(first);
  const auto end = bytes.begin() + static_cast<std::ptrdiff_t>(last);
  switch (random.between(0, 3)) {
    case 0:
      if (begin != end) *begin ^= static_cast<uint8_t>(1 << random.between(0, 7));
      break;
    case 1:
      bytes.erase(begin, end);
      break;
    case 2: {
      const Bytes part(begin, end);
      bytes.insert(begin, part.begin(), part.end());
      break;
    }
    default:
      put(bytes, first, kPieces[random.between(0, std::size(kPieces) - 1)]);
  }
}

class Corpus : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(Corpus, ReadersAnswerToEveryFileAndItsChanges) {
  const Bytes whole = bytes_of(GetParam());
  EXPECT_EQ(testing::complaint_about_readers(whole.data(), whole.size()), "");
  testing::Random random(whole.size());
  for (int i = 0; i < kChangesPerFile; ++i) {
    Bytes changed = whole;
    for (int64_t n = random.between(1, 4); n > 0; --n) change(changed, random);
    ASSERT_EQ(testing::complaint_about_readers(changed.data(), changed.size()), "")
        << "change " << i << ": " << std::string(changed.begin(), changed.end());
  }
}

INSTANTIATE_TEST_SUITE_P(Files, Corpus, ::testing::ValuesIn(corpus()), [](const auto& info) {
  std::string name =
      info.param.parent_path().filename().string() + "_" + info.param.filename().string();
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

}  // namespace
}  // namespace teraio
