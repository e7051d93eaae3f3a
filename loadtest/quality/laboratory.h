// A whole run: loads the model, measures what the options ask for, seed by seed.
#pragma once

#include "loadtest/quality/lab_options.h"
#include "loadtest/quality/results.h"

namespace lynx {

// Throws std::runtime_error naming the file or the option.
Results run_laboratory(const LabOptions& options);

}  // namespace lynx
