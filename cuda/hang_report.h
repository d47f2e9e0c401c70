// From the records that waiting agents left behind (wait_record.h) to findings in the words of the
// simulator's deadlock report. Host code only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/wait_record.h"
#include "model/run.h"

namespace moetwin {

/// Findings of one given-up launch: class deadlock for waits, overflow for an index past its table.
/// One for each (rank, step) that agents waited at, those first whose wait somebody can no longer
/// end because he has left the kernel, then those that gave up by themselves. `records` are
/// [ranks * sms][kAgentsPerCta]; `bases` the addresses of the ranks' buffers. `absent`, [ranks] or
/// empty, says of a rank that left no records why ("its process has ended"); it is what others wait
/// for at the rank barrier.
std::vector<Finding> explain_records(const KernelArgs& args, const std::vector<WaitRecord>& records,
                                     const std::vector<uint64_t>& bases, double limit_seconds,
                                     const std::vector<std::string>& absent = {});

}  // namespace moetwin
