/// A layout of the tables: the `user_version` of the file, and how a store of an earlier layout becomes one of this layout.
///
/// A change of the layout needs a new version and an upgrade in `current`, the new columns and tables in `Schema`, and the new columns in their
/// list and in its `added`. Rows that were written before have no value for a new column; their checksums must not change.
struct Layout {
    let version: Int64
    /// The sorted names of all tables and indexes.
    let objects: [String]
    /// By the layout that they start from.
    let upgrades: [Int64: Upgrade]

    /// Leads from one layout to the next, in one transaction of the opening.
    ///
    /// It adds columns with a default value, tables and indexes, and drops indexes, last. So the row of `state` stays in its page, by which a
    /// log is compared with the database when the power failed during the checkpoint of the upgrade (`LogBinding`).
    struct Upgrade {
        let statements: [String]
        /// The names of the tables and indexes that it adds, and of the indexes that it drops.
        var objects: Set<String> = []
        var dropped: Set<String> = []
    }

    static let current = Layout(
        version: 4, objects: Schema.objects,
        upgrades: [
            2: Upgrade(statements: Schema.additionsOf3, objects: Schema.objectsOf3),
            3: Upgrade(statements: Schema.additionsOf4, objects: ["message_ordered"], dropped: ["message_queued"]),
        ])

    /// The first layout whose messages have times of their own (`TimeIndex.arrange`).
    static let withTimes: Int64 = 3
    /// The first layout with the index of failures (`Store.rebuildFailures`).
    static let withFailures: Int64 = 3
    /// The first layout in which scheduled messages are apart in the order of queued ones.
    static let withOrder: Int64 = 4

    /// The first layout that is upgraded. Only development versions wrote layout 1.
    static let first: Int64 = 2

    /// The statements that lead from an earlier layout to this one; none: it is this one.
    func statements(from layout: Int64) -> [String] {
        guard layout >= Self.first, layout < version else { return [] }
        return (layout..<version).flatMap { upgrades[$0]?.statements ?? [] } + ["PRAGMA user_version = \(version)"]
    }

    /// Whether these are the sorted names of all objects in a store of the given layout.
    func hasObjects(_ names: [String], of layout: Int64) -> Bool {
        let later = upgrades.filter { $0.key >= layout }.values
        var absent = later.reduce(into: Set<String>()) { $0.formUnion($1.objects) }
        if layout == 2 {
            // The first builds of layout 2 made stores without the tables of the history or without the index of priorities.
            if !names.contains("history") { absent.formUnion(["history", "history_in", "recent_own"]) }
            if !names.contains(Schema.priorityIndexName) { absent.insert(Schema.priorityIndexName) }
        }
        absent.formUnion(Schema.optional.absent.subtracting(names))
        let dropped = later.flatMap(\.dropped)
        return names.filter { !Schema.optional.added.contains($0) } == (objects.filter { !absent.contains($0) } + dropped).sorted()
    }
}
