// The only file that is compiled with the path of the checkout, so that ccache shares all others between checkouts.
#include "tests/support/folders.h"

#include <cstdlib>

namespace ebbtide {

std::filesystem::path SourceFolder() { return EBBTIDE_SOURCE_DIR; }

std::filesystem::path DataFolder() {
  const char* named = std::getenv("EBBTIDE_DATA");
  return named ? std::filesystem::path(named) : SourceFolder() / "../shared/data";
}

}  // namespace ebbtide
