extension Simulation {
    /// When the simulated process ends without warning, as by SIGKILL. It restarts at the same instant.
    public enum CrashPoint: Sendable, Hashable {
        /// At this commit of the store, counted from 1: before it is on disk or, with `isOnDisk`, right after it. Counted is each commit
        /// that changes something: of `enqueue`, of the beginning of an attempt (together with the facts recorded before), of the end of
        /// an attempt that no other follows, of calls that change messages, of the recovery after a crash, and of the care of the store,
        /// such as its indexes. `report.writes` is the number of commits so far.
        case write(Int, isOnDisk: Bool = false)
        /// At this time: attempts in flight are interrupted and their outcomes are lost.
        case time(VirtualTime)
    }
}
