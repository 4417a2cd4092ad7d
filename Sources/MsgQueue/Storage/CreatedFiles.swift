/// The files that an opening has created. If it fails before it has changed the store, they are removed.
struct CreatedFiles {
    /// The bytes of a new store; nil: it existed.
    private let image: [UInt8]?
    /// There was neither a log nor its side record.
    private let isLogNew: Bool

    init(image: [UInt8]?, isLogNew: Bool) { (self.image, self.isLogNew) = (image, isLogNew) }

    /// Removes them, if the store is as it was. The lock is held, so that nobody else has opened the store.
    func remove(_ lock: StoreLock) {
        guard isLogNew else { return }
        _ = Posix.remove(StorePath.log(of: lock.path))
        _ = Posix.remove(StorePath.tail(of: lock.path))
        guard let image else { return }
        do throws(QueueError) {
            // Another process may have used it before the lock was acquired.
            guard try Posix.read(lock.descriptor, at: 0, count: image.count + 1, lock.path) == image else { return }
        } catch {
            return Log.warning("\(lock.path) is left: \(error.detail)")
        }
        _ = Posix.remove(lock.path)
    }
}
