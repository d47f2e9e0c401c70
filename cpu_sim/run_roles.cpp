// The role programs on the simulated machine. They are compiled here alone.
#include "common/roles/start.h"
#include "cpu_sim/planted_machine.h"
#include "cpu_sim/simulation.h"

namespace moetwin {
namespace {

template <Machine M>
void run_role_of(Simulation& sim, Agent& a) {
  M m(sim, a);
  const KernelArgs& args = sim.launch(a.rank).args;
  switch (a.role) {
    case Role::Dispatch:
      return run_role<Role::Dispatch>(m, args);
    case Role::LoadA:
      return run_role<Role::LoadA>(m, args);
    case Role::LoadB:
      return run_role<Role::LoadB>(m, args);
    default:
      return run_role<Role::Math>(m, args);
  }
}

}  // namespace

void Simulation::run_agent_role(Agent& a) {
  if (changes_values(mutant_.kind)) return run_role_of<PlantedMachine>(*this, a);
  run_role_of<SimMachine>(*this, a);
}

}  // namespace moetwin
