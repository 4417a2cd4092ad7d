extension MessageQueue {
    /// Reads the whole store at `path` and reports what is wrong with it. Writes nothing and creates no file. A damaged store is no error:
    /// it has a report, as long as its tables can be found.
    ///
    /// - Throws: `.invalid` (no such file), `.permission`, `.locked` (a queue has it open), `.corrupt` (not a store), `.tooNew`,
    ///   `.storage`.
    public static func check(path: String) throws(Error) -> CheckReport { CheckReport(try Engine.check(path)) }

    /// Makes a new store at `target` of every whole message of the store at `source`, which is not changed. Messages keep id, place, times,
    /// attempts and status; for those that were being sent, the next opening of the new store finds an interrupted attempt.
    ///
    /// - Throws: As `check`, `.conflict` (`target` exists), and `.storage` (no room); then there is no new store.
    @discardableResult
    public static func salvage(from source: String, to target: String) throws(Error) -> CheckReport {
        CheckReport(try Engine.salvage(from: source, to: target))
    }
}
