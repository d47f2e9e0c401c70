// The entry of the command line.
#include "app/command_line.h"

int main(int argc, char** argv) { return moetwin::run_command_line(argc, argv); }
