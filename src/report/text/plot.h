// A small plot of a series in block characters, for terminals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "report/text/terminal.h"

namespace ebbtide::report {

// The series in at most `count` samples. Each is the largest value of its share, so that a peak of one op is kept.
std::vector<std::int64_t> SampleMaxima(const std::vector<std::int64_t>& values, std::size_t count);

// The samples repeated, as evenly as can be, until there are `width`: a short series fills the terminal too.
std::vector<std::int64_t> Stretch(const std::vector<std::int64_t>& samples, std::size_t width);

// `height` lines from the top down, one character per sample, scaled from 0 to `top`, or to the largest sample where
// `top` is 0. A sample that is not 0 shows. One line is a sparkline.
std::vector<std::string> Plot(const std::vector<std::int64_t>& samples, int height, const Terminal& terminal,
                              std::int64_t top = 0);

}  // namespace ebbtide::report
