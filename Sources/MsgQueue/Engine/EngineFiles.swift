/// Stores that no queue has open.
extension Engine {
    package static func check(_ path: String) throws(QueueError) -> CheckReport {
        Log.prepare()
        return try StoreCheck.run(path)
    }

    package static func salvage(from source: String, to target: String) throws(QueueError) -> CheckReport {
        Log.prepare()
        return try StoreSalvage.run(from: source, to: target)
    }
}
