/// When free space of the file is given back, and how much in one step.
struct VacuumSchedule {
    /// The store must be unused for so long before the first step, in milliseconds.
    static let idleTime: Int64 = 2_000
    /// The pause between two steps.
    static let pause: Int64 = 5
    /// Free bytes that are not worth a step.
    private static let least: Int64 = 128 << 10

    /// When the next step is due (monotonic).
    private(set) var dueAt = Int64.max
    /// A step has run since the store was used last.
    private(set) var isRunning = false
    private var pagesPerStep = StepSize(16, in: 8...64)
    /// The number of commits when `dueAt` was set.
    private var commits = 0

    /// Plans a step after a commit.
    mutating func note(commits now: Int, at time: @autoclosure () -> Int64) {
        guard dueAt == Int64.max, now != commits else { return }
        wait(time(), commits: now)
    }

    /// Whether the store was changed since the step was planned.
    func wasUsed(commits now: Int) -> Bool { now != commits }

    /// Waits until the store is unused.
    mutating func wait(_ now: Int64, commits: Int) {
        (dueAt, isRunning) = (now.addingClamped(Self.idleTime), false)
        self.commits = commits
    }

    /// Returns the number of pages for the next step; nil: so little is free that the file stays as it is. The first step needs more than a
    /// fifth of the file, so that space that is used again soon is not given back.
    func pages(file: Int64, free: Int64) -> Int64? {
        free > max(Self.least, file / (isRunning ? 16 : 5)) ? pagesPerStep.value : nil
    }

    mutating func ranStep(from start: Int64, to end: Int64, commits: Int) {
        pagesPerStep.took(end - start)
        (dueAt, isRunning) = (end.addingClamped(Self.pause), true)
        self.commits = commits
    }

    /// Waits for the next change.
    mutating func end(commits: Int) {
        (dueAt, isRunning) = (Int64.max, false)
        self.commits = commits
    }
}
