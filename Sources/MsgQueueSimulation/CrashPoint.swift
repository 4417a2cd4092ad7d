extension Simulation {
    /// When the process ends without a word, as by a kill signal. It starts again in the same instant.
    public enum CrashPoint: Sendable, Hashable {
        /// With the store's commit of this number, from 1: before it reached the disk or, `isOnDisk`, right after it. Commits are made by
        /// `enqueue`, by each beginning of an attempt (together with what was recorded before), by what ends without another beginning, by
        /// calls that change messages, and by the recovery after a crash. `report.writes` says how many there have been.
        case write(Int, isOnDisk: Bool = false)
        /// At this time: what is under way is cut, and its answers are never heard.
        case time(VirtualTime)
    }
}
