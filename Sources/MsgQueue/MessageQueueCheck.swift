extension MessageQueue {
    /// Reads the whole store at `path` and says what is wrong with it. Nothing is written, and no file is made. A damaged store is no error:
    /// it has a report, as long as its tables can be found.
    ///
    /// Throws `.invalid` (there is no such file), `.permission`, `.locked` (a queue has it open), `.corrupt` (not a store), `.tooNew`,
    /// `.storage`.
    public static func check(path: String) throws(QueueError) -> CheckReport {
        try Engine.check(path)
    }

    /// Makes a new store at `target` of every whole message of the store at `source`, which is not changed. Messages keep id, place, times,
    /// attempts and status; those that were being sent are found as cut by a crash when the new store is opened.
    ///
    /// Throws as `check`, `.conflict` (`target` exists), and `.storage` (no room); then there is no new store.
    @discardableResult
    public static func salvage(from source: String, to target: String) throws(QueueError) -> CheckReport {
        try Engine.salvage(from: source, to: target)
    }
}
