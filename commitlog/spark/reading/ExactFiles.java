package commitlog;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.parquet.bytes.BytesUtils;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;
import scala.Function1;
import scala.Option;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The files of a scan, each a partition of its own whose values are what is known of it: its id, the id of its first row,
 * and a bitmap of its deleted rows. Nobody lists a folder, and a task makes the bitmaps of its own files only.
 *
 * exact_files.py has Spark's own compiler make it, in the driver: tasks need none of it but KnownFile.
 */
public class ExactFiles implements FileIndex {
    private JavaSparkContext context;
    private Configuration configuration;
    private Broadcast forTasks;
    private StructType known;
    private final List paths = new ArrayList();
    private final List partitions = new ArrayList();
    private long size = 0;

    /** What comes before any file; not a constructor, for Python calls only methods of a class that is on no class path. */
    public void begin(SparkSession session, StructType known) {
        this.context = new JavaSparkContext(session.sparkContext());
        this.configuration = session.sessionState().newHadoopConf();
        this.known = known;
    }

    /** Files as `exact_files._described` writes them. */
    public void add(byte[] described) throws IOException {
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(described));
        while (in.available() > 0) {
            Path path = new Path(new String(bytes(in), "UTF-8"));
            FileSystem system = path.getFileSystem(configuration);
            path = path.makeQualified(system.getUri(), system.getWorkingDirectory());
            long length = in.readLong();
            Object[] values = new Object[3];
            values[0] = Long.valueOf(in.readLong());
            values[1] = in.readBoolean() ? Long.valueOf(in.readLong()) : null;
            byte[] deleted = in.readBoolean() ? bytes(in) : null;
            String deleteFile = in.readBoolean() ? new String(bytes(in), "UTF-8") : null;
            InternalRow known = deleted == null && deleteFile == null ? new GenericInternalRow(values)
                : new KnownFile(values, forTasks(), deleteFile, deleted);
            FileStatus[] file = new FileStatus[] {new FileStatus(length, false, 0, 0, 0, path)};
            partitions.add(PartitionDirectory.apply(known, file));
            paths.add(path);
            size += length;
        }
    }

    /** How tasks open files; one for all of them. */
    private Broadcast forTasks() {
        if (forTasks == null) {
            forTasks = context.broadcast(new SerializableConfiguration(configuration));
        }
        return forTasks;
    }

    private static byte[] bytes(DataInputStream in) throws IOException {
        byte[] found = new byte[in.readInt()];
        in.readFully(found);
        return found;
    }

    /**
     * The rows of all files, read by options and the settings of `reading`, with what is known of their file as more columns.
     *
     * What is `shown` to others has columns without field ids and defaults: these would go on to whatever is made of the rows,
     * and be those of other files, or of two columns of one.
     */
    public Dataset rows(SparkSession session, SparkSession reading, StructType schema, java.util.Map given, boolean shown) {
        Map options = (Map) Map$.MODULE$.empty();
        for (Iterator names = given.keySet().iterator(); names.hasNext();) {
            Object name = names.next();
            options = (Map) options.updated(name, given.get(name));
        }
        ParquetFileFormat format = shown ? new Identifying(schema) : new ParquetFileFormat();
        StructType columns = shown ? (StructType) told(schema, null) : schema;
        return session.baseRelationToDataFrame(
            new HadoopFsRelation(this, known, columns, Option.empty(), format, options, reading));
    }

    /** A type whose fields have the metadata of those of another one; where there is none, not what tells how they are read. */
    private static DataType told(DataType type, DataType by) {
        if (type instanceof ArrayType) {
            ArrayType list = (ArrayType) type;
            DataType element = told(list.elementType(), by == null ? null : ((ArrayType) by).elementType());
            return new ArrayType(element, list.containsNull());
        }
        if (type instanceof MapType) {
            MapType map = (MapType) type;
            DataType key = told(map.keyType(), by == null ? null : ((MapType) by).keyType());
            DataType value = told(map.valueType(), by == null ? null : ((MapType) by).valueType());
            return new MapType(key, value, map.valueContainsNull());
        }
        if (!(type instanceof StructType)) {
            return type;
        }
        StructField[] fields = (StructField[]) ((StructType) type).fields().clone();
        for (int i = 0; i < fields.length; i++) {
            StructField own = by == null ? null : ((StructType) by).apply(fields[i].name());
            Metadata metadata = own != null ? own.metadata() : new MetadataBuilder().withMetadata(fields[i].metadata())
                .remove("parquet.field.id").remove("EXISTS_DEFAULT").build();
            DataType inner = told(fields[i].dataType(), own == null ? null : own.dataType());
            fields[i] = new StructField(fields[i].name(), inner, fields[i].nullable(), metadata);
        }
        return new StructType(fields);
    }

    /** Spark's Parquet, which reads columns by what a schema tells of them, and they themselves do not. Tasks need none of it. */
    public static class Identifying extends ParquetFileFormat {
        private final StructType schema;

        public Identifying(StructType schema) {
            this.schema = schema;
        }

        @Override
        public Function1 buildReaderWithPartitionValues(org.apache.spark.sql.SparkSession session, StructType data,
            StructType partitions, StructType read, Seq filters, Map options, Configuration configuration) {
            return new ParquetFileFormat().buildReaderWithPartitionValues(
                session, data, partitions, (StructType) told(read, schema), filters, options, configuration);
        }
    }

    /** Whether rows are read in columns, so that what is known of a file is not copied for each row. */
    public boolean isColumnar(SparkSession session, StructType schema) {
        return new ParquetFileFormat().supportBatch(session, schema);
    }

    /** The four bytes of a bitmap from a place on, the lowest bit first. */
    public Column word(Column bitmap, Column place) {
        List arguments = new ArrayList();
        arguments.add(ExpressionUtils.expression(bitmap));
        arguments.add(ExpressionUtils.expression(place));
        Seq none = CollectionConverters.asScala(new ArrayList()).toSeq();
        Seq given = CollectionConverters.asScala(arguments).toSeq();
        return ExpressionUtils.column(new StaticInvoke(BytesUtils.class, DataTypes.IntegerType, "readIntLittleEndian", given,
            none, true, true, true, Option.empty()));
    }

    public Seq rootPaths() {
        return CollectionConverters.asScala(paths).toSeq();
    }

    /** All of them: nobody filters by what only we know of files, and that it is there, Spark infers by itself. */
    public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
        for (int i = 0; i < partitionFilters.size(); i++) {
            if (!(partitionFilters.apply(i) instanceof IsNotNull)) {
                throw new UnsupportedOperationException("a filter by the file alone: " + partitionFilters.apply(i));
            }
        }
        return CollectionConverters.asScala(partitions).toSeq();
    }

    public String[] inputFiles() {
        String[] found = new String[paths.size()];
        for (int i = 0; i < found.length; i++) {
            found[i] = ((Path) paths.get(i)).toUri().toString();
        }
        return found;
    }

    /** Data files never change. */
    public void refresh() {}

    public long sizeInBytes() {
        return size;
    }

    public StructType partitionSchema() {
        return known;
    }
}
