package commitlog;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.util.Arrays;
import java.util.BitSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.HadoopReadOptions;
import org.apache.parquet.ParquetReadOptions;
import org.apache.parquet.column.ColumnReader;
import org.apache.parquet.column.impl.ColumnReadStoreImpl;
import org.apache.parquet.column.page.PageReadStore;
import org.apache.parquet.example.data.simple.convert.GroupRecordConverter;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.util.HadoopInputFile;
import org.apache.parquet.schema.MessageType;
import org.apache.parquet.schema.Type;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.util.SerializableConfiguration;
import org.roaringbitmap.longlong.LongIterator;
import org.roaringbitmap.longlong.Roaring64NavigableMap;

/**
 * What is known of a file with deleted rows: its id, the id of its first row, and a bitmap of the deleted ones, which the task
 * that reads the file makes. The driver has only the path of the delete file, and what is deleted beside it.
 */
public class KnownFile extends GenericInternalRow {
    private static final long serialVersionUID = 1L;
    private static final int BITMAP = 2;

    private final Broadcast configuration;
    private final String deleteFile;
    private final byte[] deleted;
    private transient byte[] bitmap;

    /** Of the delete file and the serialized bitmap, one may be null. */
    public KnownFile(Object[] values, Broadcast configuration, String deleteFile, byte[] deleted) {
        super(values);
        this.configuration = configuration;
        this.deleteFile = deleteFile;
        this.deleted = deleted;
    }

    public Object genericGet(int ordinal) {
        if (ordinal != BITMAP) {
            return super.genericGet(ordinal);
        }
        try {
            if (bitmap == null) {
                bitmap = bitmap();
            }
        } catch (IOException error) {
            throw new IllegalStateException("deleted rows cannot be read from " + deleteFile, error);
        }
        return bitmap;
    }

    /** A bit for each position up to the last, the lowest first, in words of four bytes. */
    private byte[] bitmap() throws IOException {
        BitSet positions = new BitSet();
        if (deleted != null) {
            Roaring64NavigableMap given = new Roaring64NavigableMap();
            given.deserializePortable(new DataInputStream(new ByteArrayInputStream(deleted)));
            LongIterator each = given.getLongIterator();
            while (each.hasNext()) {
                positions.set(Math.toIntExact(each.next()));
            }
        }
        if (deleteFile != null) {
            addFiled(positions);
        }
        byte[] bytes = positions.toByteArray();
        return Arrays.copyOf(bytes, (bytes.length + 3) / 4 * 4);
    }

    private void addFiled(BitSet positions) throws IOException {
        Configuration found = ((SerializableConfiguration) configuration.value()).value();
        Path path = new Path(deleteFile);
        // Without options of its own each file would have Hadoop's defaults parsed, which takes six times as long as the rest.
        ParquetReadOptions options = HadoopReadOptions.builder(found, path).build();
        ParquetFileReader file = ParquetFileReader.open(HadoopInputFile.fromPath(path, found), options);
        try {
            MessageType schema = file.getFileMetaData().getSchema();
            MessageType read = new MessageType(schema.getName(), new Type[] {schema.getType("pos")});
            file.setRequestedSchema(read);
            PageReadStore pages = file.readNextRowGroup();
            while (pages != null) {
                ColumnReader values = new ColumnReadStoreImpl(pages, new GroupRecordConverter(read).getRootConverter(), read,
                    file.getFileMetaData().getCreatedBy()).getColumnReader(read.getColumnDescription(new String[] {"pos"}));
                for (long i = pages.getRowCount(); i > 0; i--) {
                    positions.set(Math.toIntExact(values.getLong()));
                    values.consume();
                }
                pages = file.readNextRowGroup();
            }
        } finally {
            file.close();
        }
    }
}
