// Sums over K that are wrong, for planted faults: tile_jobs.h calls this in place of its own.
#pragma once

#include "cpu_sim/planted_rules.h"
#include "cpu_sim/tile_jobs.h"

namespace moetwin {

/// Works out `rows` rows of a tile under a promotion fault. All blocks of K must be ready.
void finish_rows_wrongly(TileJob& job, uint32_t first_row, uint32_t rows, LayerFault fault);

}  // namespace moetwin
