// What a program needs around it to run on the phantom GPU: libraries in front of CUDA's, of the right generation.
#pragma once

#include <map>
#include <string>

#include "base/result.h"

namespace ebbtide::cli {

struct Phantom {
  std::string site;                     // folder of the module that Python starts with (python/ebbtide/dryrun_site)
  std::string libraries;                // folder of the libraries, with common/, cu12/ and cu13/ below
  std::map<int, std::string> preloads;  // by CUDA generation: the value of LD_PRELOAD
};

// The phantom of this program: it lies beside it, in a build folder or in an installed package. An error where there is
// none. `scratch` is a folder to put links into where the path of the libraries is one that LD_PRELOAD cannot hold; it
// outlives the program that runs on the phantom.
Result<Phantom> FindPhantom(const std::string& scratch);

// The CUDA generation, 12 or 13, that the torch of this program was built for, found without loading torch. A Python
// and a script that names one in its first line are asked; for others, the Python on PATH. 13 where nobody knows.
int GenerationOf(const std::string& program);

}  // namespace ebbtide::cli
