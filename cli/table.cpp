#include "table.h"

#include <fmt/format.h>

#include <algorithm>

namespace teraio::cli {
namespace {

std::string line(const std::vector<std::string>& cells, const std::vector<size_t>& widths) {
  std::string text;
  for (size_t i = 0; i < cells.size(); ++i)
    text += i == 0 ? fmt::format("{:<{}}", cells[i], widths[i])
                   : fmt::format("  {:>{}}", cells[i], widths[i]);
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

}  // namespace

std::string Table::text() const {
  std::vector<size_t> widths(rows_.front().size());
  for (const std::vector<std::string>& row : rows_)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  size_t total = 0;
  for (size_t width : widths) total += width + 2;
  std::string text = line(rows_.front(), widths) + std::string(total - 2, '-') + "\n";
  for (size_t i = 1; i < rows_.size(); ++i) text += line(rows_[i], widths);
  return text;
}

}  // namespace teraio::cli
